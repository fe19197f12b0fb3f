#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the Debian package of a build, without root and without debhelper: the program, its manual, the systemd unit, settings, licences.
# In: a build folder in which everything is built, the texts of contrib/debian/. Out: BUILD/gr00t_VERSION_ARCH.deb, or below --out; its path is the
# last line on stdout. The same build and SOURCE_DATE_EPOCH (default: the last commit) give the same bytes.
# DEBFULLNAME and DEBEMAIL name the maintainer, as for devscripts. libgr00t is not part of it: `make install` has that.
set -euo pipefail
export LC_ALL=C
umask 022
source=$(cd "$(dirname "$0")/.." && pwd)
build=$source/build
out=

usage() {
    echo "usage: tools/deb.sh [--out DIR] [BUILD]"
}
die() {
    echo "deb.sh: $*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --out) [ $# -gt 1 ] || { usage >&2; exit 2; }; out=$2; shift ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) build=$1 ;;
    esac
    shift
done
for tool in dpkg-deb dpkg-shlibdeps strip meson; do
    command -v "$tool" >/dev/null || die "$tool is missing: ./setup.sh --test installs it"
done
[ -x "$build/src/gr00t" ] || die "$build/src/gr00t is missing: build it first (make)"
build=$(cd "$build" && pwd)
mkdir -p "${out:=$build}"
out=$(cd "$out" && pwd)
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git -C "$source" log -1 --format=%ct 2>/dev/null || stat -c %Y "$source/CHANGELOG.md")
fi
export SOURCE_DATE_EPOCH

version=$("$build/src/gr00t" --version)
version=${version#gr00t }
arch=$(dpkg --print-architecture)
maintainer="${DEBFULLNAME:-gr00t maintainers} <${DEBEMAIL:-gr00t@packages.invalid}>"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
doc=$root/usr/share/doc/gr00t

# The newest section of CHANGELOG.md as an entry of a Debian changelog.
changelog() {
    printf 'gr00t (%s) unstable; urgency=medium\n' "$version"
    awk '
        function flush(    n, word, line, i) {
            n = split(text, word, " ")
            line = "  *"
            for (i = 1; i <= n; i++) {
                if (length(line) + 1 + length(word[i]) > 78) { print line; line = "   " }
                line = line " " word[i]
            }
            if (n > 0) print line
            text = ""
        }
        /^## / { section++ }
        section != 1 { next }
        /^### / { flush(); printf "\n  [ %s ]\n", substr($0, 5) }
        /^- / { flush(); text = substr($0, 3) }
        /^  / { text = text $0 }
        END { flush() }' "$source/CHANGELOG.md"
    printf '\n -- %s  %s\n' "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
}

# What is installed, below $work/installed, to where Debian wants it.
fill_root() {
    local prefix
    meson install -C "$build" --no-rebuild --quiet --destdir "$work/installed" >"$work/install.log" 2>&1 || { cat "$work/install.log" >&2; die "meson install failed"; }
    prefix=$(cd "$work/installed" && find . -path '*/bin/gr00t')
    prefix=$work/installed/${prefix%/bin/gr00t}
    install -D -m 755 "$prefix/bin/gr00t" "$root/usr/bin/gr00t"
    strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/bin/gr00t"
    if [ -f "$prefix/share/man/man1/gr00t.1" ]; then
        install -D -m 644 "$prefix/share/man/man1/gr00t.1" "$root/usr/share/man/man1/gr00t.1"
        gzip -9n "$root/usr/share/man/man1/gr00t.1"
    else
        echo "deb.sh: warning: no manual in it: scdoc was missing when $build was made (./setup.sh --dev)" >&2
    fi
    install -d "$root/lib/systemd/system" "$root/var/lib/gr00t"
    sed 's|/usr/local/bin/gr00t|/usr/bin/gr00t|' "$source/contrib/systemd/gr00t.service" >"$root/lib/systemd/system/gr00t.service"
    cp "$source/contrib/systemd/gr00t.socket" "$root/lib/systemd/system/"
    install -D -m 644 "$source/contrib/debian/default" "$root/etc/default/gr00t"
    install -D -m 644 "$source/contrib/debian/lintian-overrides" "$root/usr/share/lintian/overrides/gr00t"
}

fill_doc() {
    install -d "$doc/examples"
    cp "$source/contrib/debian/copyright" "$source/LICENSE" "$source/package/gr00t/LICENSE-NOTICE.md" "$doc/"
    cp "$source"/docs/{API,OPERATIONS,PACKAGES}.md "$source/docs/openapi.yaml" "$doc/"
    cp "$source/examples/loop.py" "$source/contrib/kubernetes/gr00t.yaml" "$source"/contrib/prometheus/*.yml "$doc/examples/"
    changelog | gzip -9n >"$doc/changelog.gz"
    if [ -n "$archive" ]; then
        cp /usr/share/doc/libarchive-dev/copyright "$doc/copyright.libarchive"
    fi
}

# Package and version of libarchive when the program holds parts of its static library (meson.build).
find_archive() {
    archive=
    if ! objdump -p "$build/src/gr00t" | grep -q 'NEEDED *libarchive\.so'; then
        [ -f /usr/share/doc/libarchive-dev/copyright ] || die "/usr/share/doc/libarchive-dev/copyright is missing: its notice must go along"
        archive=$(dpkg-query -W -f '${source:Package} (= ${source:Version})' libarchive-dev)
    fi
}

depends() {
    mkdir -p "$work/source/debian"
    printf 'Source: gr00t\n\nPackage: gr00t\nArchitecture: any\n' >"$work/source/debian/control"
    (cd "$work/source" && dpkg-shlibdeps -O "$root/usr/bin/gr00t" 2>"$work/shlibdeps.log") | sed -n 's/^shlibs:Depends=//p' ||
        { cat "$work/shlibdeps.log" >&2; die "dpkg-shlibdeps failed"; }
}

write_control() {
    local kib needs
    needs=$(depends)
    [ -n "$needs" ] || { cat "$work/shlibdeps.log" >&2; die "no dependencies found"; }
    kib=$(cd "$root" && find . -type f -printf '%s\n' | awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }')
    install -d "$root/DEBIAN"
    {
        printf 'Package: gr00t\nVersion: %s\nArchitecture: %s\nMaintainer: %s\nInstalled-Size: %s\n' "$version" "$arch" "$maintainer" "$kib"
        printf 'Depends: %s\nRecommends: ca-certificates\n' "$needs"
        [ -z "$archive" ] || printf 'Built-Using: %s\n' "$archive"
        printf 'Section: misc\nPriority: optional\n'
        cat <<EOF
Description: robot policy GR00T N1.6 served on a CPU
 One program that turns a camera frame, the joint state of a robot and an
 instruction into a chunk of joint targets: over HTTP, on the command line, and
 as packages that are pulled from and pushed to the Hugging Face Hub.
 .
 The weights are not part of this package. They are downloaded from their
 publisher, whose licence excludes commercial use.
EOF
    } >"$root/DEBIAN/control"
    echo /etc/default/gr00t >"$root/DEBIAN/conffiles"
    (cd "$root" && find . -type f ! -path './DEBIAN/*' ! -path './etc/*' -printf '%P\0' | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    install -m 755 "$source"/contrib/debian/{postinst,prerm,postrm} "$root/DEBIAN/"
}

find_archive
fill_root
fill_doc
write_control
find "$root" -type f ! -perm -100 -exec chmod 644 {} +
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
deb=gr00t_${version}_$arch.deb
# One thread: several would cut the stream elsewhere.
dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$root" "$work/$deb" >/dev/null
mv "$work/$deb" "$out/$deb.new"
mv "$out/$deb.new" "$out/$deb"
echo "$out/$deb"
