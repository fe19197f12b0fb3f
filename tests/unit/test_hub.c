/* SPDX-License-Identifier: Apache-2.0
 *
 * test_hub.c: the parts of the Hub that need no network: names that may become paths, patterns, the cache's paths, links, refs, locks and trees, what
 * a refusal says, where the next page is. */
#include "gr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "http_player.h"
#include "hub/download.h"
#include "hub/hub_cache.h"

#define ID "org/name"
#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define SHA1 "89abcdef0123456789abcdef0123456789abcdef"
#define SHA256 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char root[GR_PATH_BYTES];

/* In the place of the C library's, for one test. */
static time_t fake_now;

time_t time(time_t *out)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    const time_t t = fake_now != 0 ? fake_now : now.tv_sec;
    if (out != NULL) {
        *out = t;
    }
    return t;
}

static int make_root(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "%s", gr_test_temp_dir());
    return 0;
}

static void path_in(char out[GR_PATH_BYTES], const char *name)
{
    struct gr_err err;
    gr_test_ok(gr_path_join(out, root, name, &err), &err);
}

static void put(const char *name, const char *text)
{
    char path[GR_PATH_BYTES], dir[GR_PATH_BYTES];
    struct gr_err err;
    path_in(path, name);
    strcpy(dir, path);
    *strrchr(dir, '/') = '\0';
    gr_test_ok(gr_fs_mkdirs(dir, &err), &err);
    gr_test_ok(gr_fs_write(path, text, strlen(text), &err), &err);
}

/* ---- names ---- */

static void repositories_are_org_and_name(void **state)
{
    (void)state;
    static const char *const good[] = {"nvidia/GR00T-N1.6-3B", "a/b", "A_b-1/c.d"};
    static const char *const bad[] = {"",        "name",   "/name",      "org/",      "org/name/x",
                                      "../name", "org/..", "org/.name",  "o rg/n",    "org/n\n",
                                      "a--b/c",  "a..b/c", "org/name@x", "\xc3\xbc/x"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(gr_hub_is_id(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(gr_hub_is_id(bad[i]));
    }
}

static void a_target_is_split_at_its_revision(void **state)
{
    (void)state;
    char id[GR_HUB_ID_BYTES], revision[GR_HUB_REVISION_BYTES];
    struct gr_err err;
    gr_test_ok(gr_hub_parse_id("org/name", id, revision, &err), &err);
    assert_string_equal(id, "org/name");
    assert_string_equal(revision, "");
    gr_test_ok(gr_hub_parse_id("org/name@refs/pr/1", id, revision, &err), &err);
    assert_string_equal(revision, "refs/pr/1");
    static const char *const bad[] = {"org",         "org/name@",   "org/name@../x",
                                      "org/name@/x", "org/name@x/", "org/name@a/.b"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(gr_hub_parse_id(bad[i], id, revision, &err), GR_ERR_USAGE);
    }
}

static void paths_stay_inside(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "a/b.c", ".gitattributes", "a b/\xc3\xbc", "...", "a/..b"};
    static const char *const bad[] = {"",  "/a",  "a/",   "a//b", "..",    "a/../b",
                                      ".", "./a", "a\\b", "a\nb", "a\x7f", "a\xff"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(gr_hub_is_path(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(gr_hub_is_path(bad[i]));
    }
}

static bool matches(const char *allow, const char *ignore, const char *path)
{
    const struct gr_hub_patterns p = {&allow, &ignore, allow != NULL, ignore != NULL};
    return gr_hub_matches(&p, path);
}

static void patterns_are_read_as_the_hubs_clients_do(void **state)
{
    (void)state;
    assert_true(matches(NULL, NULL, "any/thing"));
    assert_true(matches("*.json", NULL, "sub/deep/x.json"));
    assert_false(matches("*.json", NULL, "x.JSON"));
    assert_true(matches("sub/", NULL, "sub/deep/x"));
    assert_false(matches("sub/", NULL, "subx/y"));
    assert_true(matches("model-0000[12]-of-0000?.bin", NULL, "model-00002-of-00009.bin"));
    assert_false(matches("x.json", NULL, "sub/x.json"));
    assert_false(matches("*", "*.bin", "a.bin"));
    assert_true(matches("*", "*.bin", "a.binary"));
    assert_true(matches("*", NULL, ".hidden/x"));
}

/* ---- the cache ---- */

static void cache_paths_are_those_of_the_python_client(void **state)
{
    (void)state;
    char path[GR_PATH_BYTES];
    struct gr_err err;
    gr_test_ok(gr_cache_model("/c", "nvidia/GR00T-N1.6-3B", path, &err), &err);
    assert_string_equal(path, "/c/models--nvidia--GR00T-N1.6-3B");
    gr_test_ok(gr_cache_blob("/c", ID, SHA256, path, &err), &err);
    assert_string_equal(path, "/c/models--org--name/blobs/" SHA256);
    gr_test_ok(gr_cache_snapshot("/c", ID, COMMIT, path, &err), &err);
    assert_string_equal(path, "/c/models--org--name/snapshots/" COMMIT);
    assert_int_equal(gr_cache_blob("/c", ID, "../x", path, &err), GR_ERR_USAGE);
    assert_int_equal(gr_cache_blob("/c", "../x/y", SHA1, path, &err), GR_ERR_USAGE);
    assert_int_equal(gr_cache_snapshot("/c", ID, "main", path, &err), GR_ERR_USAGE);
}

static void a_link_is_relative_and_replaces_what_is_wrong(void **state)
{
    (void)state;
    char link[GR_PATH_BYTES], target[GR_PATH_BYTES] = "";
    struct gr_err err;
    struct stat first, second;
    put("models--org--name/blobs/" SHA1, "x");
    gr_test_ok(gr_cache_link(root, ID, COMMIT, "a/b/c.txt", SHA1, &err), &err);
    path_in(link, "models--org--name/snapshots/" COMMIT "/a/b/c.txt");
    assert_true(readlink(link, target, sizeof target - 1) > 0);
    assert_string_equal(target, "../../../../blobs/" SHA1);
    assert_true(gr_fs_is_file(link));
    assert_int_equal(lstat(link, &first), 0);
    gr_test_ok(gr_cache_link(root, ID, COMMIT, "a/b/c.txt", SHA1, &err), &err);
    assert_int_equal(lstat(link, &second), 0);
    assert_int_equal(first.st_ino, second.st_ino); /* not touched */
    gr_test_ok(gr_cache_link(root, ID, COMMIT, "a/b/c.txt", SHA256, &err), &err);
    memset(target, 0, sizeof target);
    assert_true(readlink(link, target, sizeof target - 1) > 0);
    assert_string_equal(target, "../../../../blobs/" SHA256);
    put("models--org--name/snapshots/" COMMIT "/plain", "a file where a link belongs");
    gr_test_ok(gr_cache_link(root, ID, COMMIT, "plain", SHA1, &err), &err);
    path_in(link, "models--org--name/snapshots/" COMMIT "/plain");
    assert_true(readlink(link, target, sizeof target - 1) > 0);
    assert_int_equal(gr_cache_link(root, ID, COMMIT, "../../x", SHA1, &err), GR_ERR_USAGE);
}

static void a_ref_names_a_commit(void **state)
{
    (void)state;
    char commit[GR_HUB_COMMIT_BYTES], *text = NULL, path[GR_PATH_BYTES];
    size_t n = 0;
    struct gr_err err;
    assert_int_equal(gr_cache_resolve(root, ID, "refs/pr/7", commit, &err), GR_ERR_FORMAT);
    gr_test_ok(gr_cache_write_ref(root, ID, "refs/pr/7", COMMIT, &err), &err);
    gr_test_ok(gr_cache_resolve(root, ID, "refs/pr/7", commit, &err), &err);
    assert_string_equal(commit, COMMIT);
    path_in(path, "models--org--name/refs/refs/pr/7");
    gr_test_ok(gr_fs_read(path, 100, &text, &n, &err), &err);
    assert_int_equal(n, 40); /* no newline */
    free(text);
    gr_test_ok(gr_cache_resolve(root, ID, SHA1, commit, &err), &err);
    assert_string_equal(commit, SHA1);
    put("models--org--name/refs/bad", "../../etc");
    assert_int_equal(gr_cache_resolve(root, ID, "bad", commit, &err), GR_ERR_FORMAT);
    assert_int_equal(gr_cache_resolve(root, ID, "../bad", commit, &err), GR_ERR_USAGE);
}

static void a_tree_reads_back(void **state)
{
    (void)state;
    struct gr_hub_file files[2] = {
        {.path = (char *)"a \"b\"/c.json", .size = 5, .oid = SHA1, .blob_id = SHA1},
        {.path = (char *)"big.bin", .size = 1ULL << 40, .oid = SHA256, .lfs = true, .blob_id = COMMIT}};
    struct gr_hub_repo repo = {.id = ID, .commit = COMMIT, .files = files, .n_files = 2}, got;
    char path[GR_PATH_BYTES];
    struct stat st;
    struct gr_err err;
    gr_test_ok(gr_cache_write_tree(root, &repo, &err), &err);
    gr_test_ok(gr_cache_read_tree(root, ID, COMMIT, &got, &err), &err);
    assert_int_equal(got.n_files, 2);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(got.files[i].path, files[i].path);
        assert_string_equal(got.files[i].oid, files[i].oid);
        assert_string_equal(got.files[i].blob_id, files[i].blob_id);
        assert_int_equal(got.files[i].size, files[i].size);
        assert_int_equal(got.files[i].lfs, files[i].lfs);
    }
    gr_hub_repo_free(&got);
    path_in(path, "models--org--name/trees/" COMMIT ".json");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    path_in(path, "CACHEDIR.TAG");
    assert_true(gr_fs_is_file(path));
}

static void a_damaged_tree_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "[]",
        "{\"format_version\": 2, \"files\": {}}",
        "{\"format_version\": 1, \"files\": []}",
        "{\"format_version\": 1, \"files\": {\"../x\": {\"size\": 1, \"blob_id\": \"" SHA1 "\"}}}",
        "{\"format_version\": 1, \"files\": {\"x\": {\"size\": -1, \"blob_id\": \"" SHA1 "\"}}}",
        "{\"format_version\": 1, \"files\": {\"x\": {\"size\": 1, \"blob_id\": \"short\"}}}",
        "{\"format_version\": 1, \"files\": {\"x\": {\"size\": 1, \"blob_id\": \"" SHA1 "\", \"lfs_sha256\": \"x\"}}}"};
    struct gr_hub_repo got;
    struct gr_err err;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put("models--org--name/trees/" SHA1 ".json", bad[i]);
        assert_int_equal(gr_cache_read_tree(root, ID, SHA1, &got, &err), GR_ERR_FORMAT);
    }
    assert_int_equal(gr_cache_read_tree(root, "org/other", SHA1, &got, &err), GR_ERR_FORMAT);
}

static void links_stand_in_for_a_tree(void **state)
{
    (void)state;
    struct gr_hub_repo got;
    struct gr_err err;
    put("models--org--links/blobs/" SHA1, "abc");
    put("models--org--links/blobs/" SHA256, "defg");
    gr_test_ok(gr_cache_link(root, "org/links", COMMIT, "b/x", SHA1, &err), &err);
    gr_test_ok(gr_cache_link(root, "org/links", COMMIT, "a", SHA256, &err), &err);
    gr_test_ok(gr_cache_read_links(root, "org/links", COMMIT, &got, &err), &err);
    assert_int_equal(got.n_files, 2);
    assert_string_equal(got.files[0].path, "a");
    assert_true(got.files[0].lfs && got.files[0].size == 4);
    assert_string_equal(got.files[1].oid, SHA1);
    gr_hub_repo_free(&got);
    gr_test_ok(gr_cache_link(root, "org/links", COMMIT, "gone", COMMIT, &err), &err);
    assert_int_equal(gr_cache_read_links(root, "org/links", COMMIT, &got, &err), GR_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "does not exist: mount or copy the whole Hub cache"));
}

static void a_lock_has_one_holder(void **state)
{
    (void)state;
    int first = -1, second = -1;
    struct gr_err err;
    gr_test_ok(gr_cache_try_lock(root, ID, SHA1, &first, &err), &err);
    assert_true(first >= 0);
    gr_test_ok(gr_cache_try_lock(root, ID, SHA1, &second, &err), &err);
    assert_int_equal(second, -1);
    (void)close(first);
    gr_test_ok(gr_cache_try_lock(root, ID, SHA1, &second, &err), &err);
    assert_true(second >= 0);
    (void)close(second);
}

/* ---- the Hub's words ---- */

#define SECRET "hf_secret_of_this_test"

static struct gr_hub *open_hub(const char *token)
{
    const struct gr_hub_config cfg = {.endpoint = "https://hub.example/", .token = token, .offline = true};
    struct gr_hub *hub = NULL;
    struct gr_err err;
    gr_test_ok(gr_hub_open(&cfg, &hub, &err), &err);
    return hub;
}

static void refused(const char *token, int status, const char *headers, enum gr_status want, const char *part)
{
    struct gr_hub *hub = open_hub(token);
    struct gr_http_reply reply = {.status = status, .headers = (char *)(uintptr_t)headers};
    struct gr_err err;
    assert_int_equal(gr_hub_refused(hub, ID, &reply, &err), want);
    if (strstr(err.msg, part) == NULL) {
        fail_msg("%d: \"%s\" is not in \"%s\"", status, part, err.msg);
    }
    assert_null(strstr(err.msg, SECRET));
    gr_hub_close(hub);
}

static void each_refusal_has_its_remedy(void **state)
{
    (void)state;
    static const char gated[] = "HTTP/1.1 403 x\nX-Error-Code: GatedRepo\n";
    static const char missing[] = "HTTP/1.1 404 x\nX-Error-Code: RepoNotFound\n";
    refused(NULL, 401, gated, GR_ERR_ACCESS, "accept its terms at https://hub.example/org/name");
    refused(NULL, 401, gated, GR_ERR_ACCESS, "no token was sent");
    refused(SECRET, 403, gated, GR_ERR_ACCESS, "has no access yet");
    refused(NULL, 401, missing, GR_ERR_ACCESS, "or it is private and no token was sent");
    refused(SECRET, 404, missing, GR_ERR_INPUT, "the token in use may not see it");
    refused(SECRET, 401, "HTTP/1.1 401 x\nX-Error-Message: Invalid credentials in Authorization header\n",
            GR_ERR_ACCESS, "https://hub.example/settings/tokens");
    refused(SECRET, 404, "X: y\nX-Error-Code: RevisionNotFound\n", GR_ERR_INPUT, "no such revision");
    refused(NULL, 404, "X: y\nX-Error-Code: RevisionNotFound\n", GR_ERR_INPUT,
            "those it has are at https://hub.example/org/name/commits/main");
    refused(NULL, 429, "HTTP/1.1 429 x\nRetry-After: 7\n", GR_ERR_NETWORK, "try again in 7 s; with HF_TOKEN set");
    refused(NULL, 503, "HTTP/1.1 503 x\nX-Error-Message: down\n", GR_ERR_NETWORK, "fault of its own (503: down)");
    refused(NULL, 302, "HTTP/1.1 302 x\n", GR_ERR_NETWORK, "not followed");
    refused(SECRET, 500, "HTTP/1.1 500 x\nX-Error-Message: " SECRET " is yours\n", GR_ERR_NETWORK,
            "fault of its own (500)");
    char cut[512]; /* the end of the secret is behind what is shown */
    (void)snprintf(cut, sizeof cut, "H\nX-Error-Message: %0*d" SECRET "\n", 150, 0);
    refused(SECRET, 500, cut, GR_ERR_NETWORK, "fault of its own (500)");
}

static void addresses_of_a_hub_are_checked(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "hub", "ftp://x", "https://", "https:///x", "http://u:secret@x", "http://x y", "http://x?a"};
    struct gr_hub *hub = NULL;
    struct gr_err err;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct gr_hub_config cfg = {.endpoint = bad[i]};
        assert_int_equal(gr_hub_open(&cfg, &hub, &err), GR_ERR_USAGE);
        assert_non_null(strstr(err.msg, "HF_ENDPOINT"));
        assert_null(strstr(err.msg, "secret"));
    }
    const struct gr_hub_config cfg = {.token = "a\nb"};
    assert_int_equal(gr_hub_open(&cfg, &hub, &err), GR_ERR_USAGE);
}

/* "refused": the listing cannot be complete. */
static const char *next_page(const char *headers)
{
    static char out[256];
    struct gr_hub *hub = open_hub(NULL);
    struct gr_err err;
    const struct gr_http_reply reply = {.status = 200, .headers = (char *)(uintptr_t)headers};
    const enum gr_status status = gr_hub_next_page(hub, &reply, out, sizeof out, &err);
    gr_hub_close(hub);
    if (status == GR_OK) {
        return out;
    }
    assert_int_equal(status, GR_ERR_NETWORK);
    return "refused";
}

static void the_next_page_is_the_hubs_own(void **state)
{
    (void)state;
    char late[8192];
    assert_string_equal(next_page("H\nLink: <https://hub.example/api/x?cursor=2>; rel=\"next\"\n"), "/api/x?cursor=2");
    assert_string_equal(next_page("H\nlink: </a>; rel=\"prev\", </b>; rel=\"next\"\n"), "/b");
    assert_string_equal(next_page("H\nLink: <https://huggingface.co/api/x>; rel=\"next\"\n"),
                        "/api/x"); /* a mirror's */
    assert_string_equal(next_page("H\nLink: <https://other.example/api/x>; rel=\"next\"\n"), "refused");
    assert_string_equal(next_page("H\nLink: <https://hub.example.evil/api/x>; rel=\"next\"\n"), "refused");
    assert_string_equal(next_page("H\nLink: <//other/x>; rel=\"next\"\n"), "refused");
    assert_string_equal(next_page("H\nLink: </x\n"), "refused");
    (void)snprintf(late, sizeof late, "H\nLink: </%0*d>; rel=\"next\"\n", 5000, 0);
    assert_string_equal(next_page(late), "refused"); /* longer than its place */
    assert_string_equal(next_page("H\nLink: </a>; rel=\"prev\"\n"), "");
    assert_string_equal(next_page("H\n"), "");
}

static void offline_sends_nothing(void **state)
{
    (void)state;
    struct gr_hub *hub = open_hub(NULL);
    struct gr_hub_repo repo;
    struct gr_err err;
    assert_int_equal(gr_hub_look(hub, ID, NULL, true, &repo, &err), GR_ERR_NETWORK);
    assert_non_null(strstr(err.msg, "HF_HUB_OFFLINE"));
    gr_hub_close(hub);
}

static void a_wrong_clock_is_named(void **state)
{
    (void)state;
    const struct gr_hub_config cfg = {.endpoint = "http://127.0.0.1:1", .tries = 1}; /* where nobody listens */
    struct gr_hub *hub = NULL;
    struct gr_hub_repo repo;
    struct gr_err err;
    gr_test_ok(gr_hub_open(&cfg, &hub, &err), &err);
    assert_int_equal(gr_hub_look(hub, ID, NULL, false, &repo, &err), GR_ERR_NETWORK);
    assert_null(strstr(err.msg, "clock"));
    fake_now = 86400; /* a board without a clock battery, a day after it was switched on */
    assert_int_equal(gr_hub_look(hub, ID, NULL, false, &repo, &err), GR_ERR_NETWORK);
    fake_now = 0;
    assert_non_null(strstr(err.msg, "this machine's clock says 1970-01-02: set it first"));
    gr_hub_close(hub);
}

/* Both limits in the Hub's settings reach the connection. */
static void a_hub_that_drips_is_given_up(void **state)
{
    (void)state;
    static struct player p = {.script = {"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"}, .drip_bytes = 1};
    struct gr_hub *hub = NULL;
    struct gr_hub_repo repo;
    struct gr_err err;
    player_start(&p, NULL);
    const struct gr_hub_config cfg = {.endpoint = p.url, .tries = 1, .time_limit_s = 0.3, .slow_s = 0.5};
    gr_test_ok(gr_hub_open(&cfg, &hub, &err), &err);
    gr_test_fails(gr_hub_look(hub, ID, NULL, false, &repo, &err), &err, GR_ERR_NETWORK, "came or went in 0.5 s");
    gr_hub_close(hub);
    player_stop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repositories_are_org_and_name),
        cmocka_unit_test(a_target_is_split_at_its_revision),
        cmocka_unit_test(paths_stay_inside),
        cmocka_unit_test(patterns_are_read_as_the_hubs_clients_do),
        cmocka_unit_test(cache_paths_are_those_of_the_python_client),
        cmocka_unit_test(a_link_is_relative_and_replaces_what_is_wrong),
        cmocka_unit_test(a_ref_names_a_commit),
        cmocka_unit_test(a_tree_reads_back),
        cmocka_unit_test(a_damaged_tree_is_refused),
        cmocka_unit_test(links_stand_in_for_a_tree),
        cmocka_unit_test(a_lock_has_one_holder),
        cmocka_unit_test(each_refusal_has_its_remedy),
        cmocka_unit_test(addresses_of_a_hub_are_checked),
        cmocka_unit_test(the_next_page_is_the_hubs_own),
        cmocka_unit_test(offline_sends_nothing),
        cmocka_unit_test(a_wrong_clock_is_named),
        cmocka_unit_test(a_hub_that_drips_is_given_up),
    };
    return cmocka_run_group_tests(tests, make_root, gr_test_temp_clean);
}
