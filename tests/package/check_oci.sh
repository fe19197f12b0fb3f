#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks an OCI image layout folder: own structural checks, then skopeo and umoci
# (Debian packages skopeo, umoci; jq and sha256sum are used too).
#
#   check_oci.sh LAYOUT_DIR [REF]        REF defaults to "latest"
#
# Prints one PASS or FAIL line per check and closes with "N passed, N failed".
# Exit status: 0 all passed, 1 a check failed, 2 usage or a tool is missing.
set -u
[ $# -ge 1 ] || { echo "usage: $0 LAYOUT_DIR [REF]" >&2; exit 2; }
dir=${1%/}; ref=${2:-latest}
for t in skopeo umoci jq sha256sum; do
  command -v "$t" >/dev/null || { echo "$t is missing" >&2; exit 2; }
done
tmp=$(mktemp -d) || exit 2
trap 'chmod -R u+rwX "$tmp" 2>/dev/null; rm -rf "$tmp"' EXIT
pass=0; fail=0
ok()  { pass=$((pass+1)); echo "PASS $1${2:+  ($2)}"; }
bad() { fail=$((fail+1)); echo "FAIL $1${2:+  ($2)}"; }
try() { # name command...
  local n=$1; shift
  if "$@" >"$tmp/out" 2>&1; then ok "$n"; else bad "$n" "$(tail -n1 "$tmp/out" | cut -c1-160)"; fi
}
finish() { echo "$pass passed, $fail failed"; [ "$fail" = 0 ]; exit $?; }

# -- structure ---------------------------------------------------------------
if [ "$(jq -r .imageLayoutVersion "$dir/oci-layout" 2>/dev/null)" = 1.0.0 ]; then ok "oci-layout is 1.0.0"
else bad "oci-layout is 1.0.0"; finish; fi
if jq -e '.schemaVersion == 2 and (.manifests|length) >= 1' "$dir/index.json" >/dev/null 2>&1; then ok "index.json"
else bad "index.json"; finish; fi
n=$(jq -r --arg r "$ref" '[.manifests[]|select(.annotations["org.opencontainers.image.ref.name"]==$r)]|length' "$dir/index.json")
if [ "$n" = 1 ]; then ok "exactly one manifest carries the ref name $ref"
else bad "exactly one manifest carries the ref name $ref" "found $n"; fi

b=0; names=0
while IFS= read -r -d '' f; do
  names=$((names+1)); h=$(basename "$f")
  [[ $h =~ ^[0-9a-f]{64}$ ]] || { b=$((b+1)); continue; }
  [ "$(sha256sum <"$f" | cut -d' ' -f1)" = "$h" ] || b=$((b+1))
done < <(find -L "$dir/blobs/sha256" -type f -print0 2>/dev/null)
if [ "$names" -gt 0 ] && [ "$b" = 0 ]; then ok "every blob matches its name" "$names blobs"
else bad "every blob matches its name" "$b of $names wrong"; fi

# walk: index -> manifest -> config, layers (sizes, digests, diff_ids)
blob() { echo "$dir/blobs/sha256/${1#sha256:}"; }
m=$(jq -r --arg r "$ref" '([.manifests[]|select(.annotations["org.opencontainers.image.ref.name"]==$r)][0] // .manifests[0]).digest' "$dir/index.json")
mf=$(blob "$m")
if [ -f "$mf" ] && jq -e '.schemaVersion==2 and .config.digest and (.layers|length>0)' "$mf" >/dev/null 2>&1; then
  ok "image manifest" "$m"
  w=0
  while read -r d s; do
    p=$(blob "$d"); [ -f "$p" ] && [ "$(stat -L -c %s "$p")" = "$s" ] || w=$((w+1))
  done < <(jq -r '.config, .layers[] | "\(.digest) \(.size)"' "$mf")
  im=$(jq -r --arg d "$m" '.manifests[]|select(.digest==$d)|.size' "$dir/index.json" | head -n1)
  [ "$(stat -L -c %s "$mf")" = "$im" ] || w=$((w+1))
  if [ "$w" = 0 ]; then ok "descriptor sizes"; else bad "descriptor sizes" "$w wrong"; fi
  cf=$(blob "$(jq -r .config.digest "$mf")")
  if jq -e '.rootfs.type=="layers" and .architecture and .os=="linux" and (.config.Entrypoint or .config.Cmd)' "$cf" >/dev/null 2>&1
  then ok "image config"; else bad "image config"; fi
  w=0; i=0
  while read -r d t; do
    want=$(jq -r ".rootfs.diff_ids[$i]" "$cf"); i=$((i+1)); p=$(blob "$d")
    case $t in
      *+gzip) got=$(gzip -dc "$p" 2>/dev/null | sha256sum) ;;
      *+zstd) got=$(zstd -dc "$p" 2>/dev/null | sha256sum) ;;
      *)      got=$(sha256sum <"$p") ;;
    esac
    [ "sha256:${got%% *}" = "$want" ] || w=$((w+1))
  done < <(jq -r '.layers[]|"\(.digest) \(.mediaType)"' "$mf")
  if [ "$w" = 0 ] && [ "$i" = "$(jq '.rootfs.diff_ids|length' "$cf")" ]; then ok "diff_ids match the unpacked layers" "$i layers"
  else bad "diff_ids match the unpacked layers" "$w wrong of $i"; fi
  # no orphans: every blob is reachable
  { echo "${m#sha256:}"; jq -r '.manifests[].digest|ltrimstr("sha256:")' "$dir/index.json"
    jq -r '.config,.layers[]|.digest|ltrimstr("sha256:")' "$mf"; } | sort -u >"$tmp/used"
  ls "$dir/blobs/sha256" | sort >"$tmp/have"
  o=$(comm -13 "$tmp/used" "$tmp/have" | wc -l)
  if [ "$o" = 0 ]; then ok "no unreferenced blobs"; else bad "no unreferenced blobs" "$o"; fi
else
  bad "image manifest" "$m"
fi

# optional compatibility file for engines older than Docker 25
if [ -f "$dir/manifest.json" ]; then
  if jq -e 'type=="array" and all(.[]; .Config and (.RepoTags|type=="array") and (.Layers|length>0))' "$dir/manifest.json" >/dev/null 2>&1 &&
     ! jq -r '.[]|.Config,.Layers[]' "$dir/manifest.json" | while read -r p; do [ -f "$dir/$p" ] || echo x; done | grep -q x
  then ok "manifest.json (docker archive form) points at existing blobs"
  else bad "manifest.json (docker archive form) points at existing blobs"; fi
fi

# -- the real tools ------------------------------------------------------------
try "skopeo inspect"            skopeo inspect "oci:$dir:$ref"
try "skopeo inspect --config"   skopeo inspect --config "oci:$dir:$ref"
try "skopeo copy to a new layout (digests checked)" skopeo copy -q "oci:$dir:$ref" "oci:$tmp/copy:$ref"
if [ -d "$tmp/copy/blobs" ]; then
  d1=$(skopeo inspect --raw "oci:$dir:$ref" 2>/dev/null | sha256sum); d2=$(skopeo inspect --raw "oci:$tmp/copy:$ref" 2>/dev/null | sha256sum)
  if [ "$d1" = "$d2" ]; then ok "the copy has the same manifest digest"; else bad "the copy has the same manifest digest"; fi
fi
try "skopeo copy to a docker archive" skopeo copy -q "oci:$dir:$ref" "docker-archive:$tmp/a.tar:check/image:$ref"
try "umoci stat"                umoci stat --image "$dir:$ref"
un=(umoci unpack --image "$dir:$ref" "$tmp/bundle"); [ "$(id -u)" = 0 ] || un=(umoci unpack --rootless --image "$dir:$ref" "$tmp/bundle")
try "umoci unpack"              "${un[@]}"
if [ -f "$tmp/bundle/config.json" ]; then
  e=$(jq -r '.process.args[0]' "$tmp/bundle/config.json"); r="$tmp/bundle/rootfs"
  if [[ $e != /* ]] || [ -e "$r$e" ] || [ -L "$r$e" ]; then ok "the entry command exists in the root file system" "$e"
  else bad "the entry command exists in the root file system" "$e"; fi
fi
finish
