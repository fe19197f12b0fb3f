# SPDX-License-Identifier: Apache-2.0
"""What the tests of the service share: a demo snapshot, a running `gr00t serve`, raw sockets, and the list of tests.

In: GR00T_BIN, the program; GR00T_SHARED (optional) with the Qwen2 vocabulary. Out: one TAP line a test, "N passed, N failed" at the end.
A failure prints what was sent and what came back. Nothing but the standard library is used.

A test is named after its case: `@test("HT-05", "two content lengths are refused")`. Tests that used the shared server are followed by a look at
/health and at the bytes of the base request's actions: no input may change them.
"""
import atexit
import base64
import collections
import json
import os
import re
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.dont_write_bytecode = True
from wire import Raw, Reply, http, receive, reset, send, show, strict_json  # noqa: E402, F401

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "data")
BIN = os.path.abspath(os.environ.get("GR00T_BIN", "./gr00t"))
SHARED = os.environ.get("GR00T_SHARED", "")
CAMERA = "ego_view_bg_crop_pad_res256_freq20"
GROUPS = {"left_arm": 7, "right_arm": 7, "left_hand": 6, "right_hand": 6, "waist": 3}


def built_with_sanitizers():
    try:
        with open(BIN, "rb") as f:
            blob = f.read()
    except OSError:
        return False
    return b"__asan_init" in blob or b"__tsan_init" in blob or b"__ubsan_handle" in blob


SANITIZED = built_with_sanitizers()
SLACK = 8.0 if SANITIZED else 1.0  # sanitizers cost that much time
HANG_S = 60.0  # what does not come within this (times SLACK), however busy the machine is, never comes
REPORTS = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer", "runtime error:", "SUMMARY: ")
TESTS = []
TMP = ""
DEMO = ""


class Skip(Exception):
    pass


def test(ids, title):
    """ids: the case ids, separated by blanks, "" for none."""
    def add(f):
        TESTS.append((ids, title, f))
        return f
    return add


def set_up():
    """The folder of this run and the demo snapshot in it."""
    global TMP, DEMO
    if not TMP:
        TMP = tempfile.mkdtemp(prefix="gr00t-http-")
        atexit.register(shutil.rmtree, TMP, ignore_errors=True)
        os.chmod(TMP, 0o755)
        os.makedirs(os.path.join(TMP, "home"))
        DEMO = os.path.join(TMP, "demo")
        subprocess.run([BIN, "synth", "demo", DEMO], check=True, env=clean_env(), stdout=subprocess.DEVNULL, timeout=300)


def path(*parts):
    return os.path.join(TMP, *parts)


def data(*parts):
    with open(os.path.join(DATA, *parts), "rb") as f:
        return f.read()


def base(**changes):
    """The base request as a dict, with other top-level fields; None takes a field away."""
    doc = json.loads(data("json", "base.json"))
    doc.update(changes)
    return {k: v for k, v in doc.items() if v is not None}


def state_with(group, values):
    state = base()["state"]
    state[group] = values
    return state


def base64_text(blob):
    return base64.b64encode(blob).decode()


def encode(doc):
    return doc if isinstance(doc, bytes) else json.dumps(doc).encode()


def clean_env(extra=None):
    """No setting of the caller reaches the program but those of the sanitizers and of coverage."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("GR00T_", "HF_", "HUGGINGFACE_", "XDG_", "TT_", "LISTEN_", "NOTIFY_")) and k != "MESH_DEVICE"}
    env["HOME"] = path("home")
    env["GR00T_CACHE"] = path("cache")
    env["GR00T_POLICY"] = "exact"  # what goldens are compared with; tests of other number formats say so
    env["GR00T_THREADS"] = "1"  # two that wait for each other are slow on a busy machine; tests of threads say so
    for k, v in (extra or {}).items():
        if v is None:
            env.pop(k, None)
        else:
            env[k] = v
    return env


class Server:
    """A running `gr00t serve`. url, port and log are there after start()."""

    def __init__(self, *args, model=None, env=None, before=None, wrap=(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=None, pass_fds=()):
        self.args = [*wrap, BIN, "serve", "--model", model or DEMO, *map(str, args)]
        if model is False:
            self.args = [*wrap, BIN, "serve", *map(str, args)]
        self.lines, self.log_cond, self.t0 = [], threading.Condition(), time.monotonic()
        self.url = self.unix = None
        self.port = 0
        self.tls = None
        self.p = subprocess.Popen(self.args, env=clean_env(env), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, preexec_fn=before, cwd=cwd,
                                  pass_fds=pass_fds)
        self.reader = None
        if stderr == subprocess.PIPE:
            self.reader = threading.Thread(target=self._read, daemon=True)
            self.reader.start()
        LIVE.append(self)

    def _read(self):
        for line in self.p.stderr:
            with self.log_cond:
                self.lines.append((time.monotonic() - self.t0, line.decode("utf-8", "replace").rstrip("\n")))
                self.log_cond.notify_all()
        with self.log_cond:
            self.log_cond.notify_all()

    @property
    def log(self):
        with self.log_cond:
            return "\n".join(x for _, x in self.lines)

    def wait_log(self, pattern, timeout=HANG_S):
        """The first match of a regular expression in the log."""
        end = time.monotonic() + timeout * SLACK
        with self.log_cond:
            while True:
                for _, line in self.lines:
                    m = re.search(pattern, line)
                    if m:
                        return m
                left = end - time.monotonic()
                over = self.p.poll() is not None and not self.reader.is_alive()
                if left <= 0 or over:
                    break
                self.log_cond.wait(min(left, 0.1))
        raise AssertionError(f"no line like {pattern!r} ({'process ended with %s' % self.p.poll() if over else 'time out'}) in the log of {self.args}:\n{self.log}")

    def listening(self):
        m = self.wait_log(r"[Ll]istening on ((https?)://(\[[^]]*\]|[^:/ ]+):(\d+)|unix:(\S+))")
        self.url = m.group(1)
        if m.group(5):
            self.unix = m.group(5)
        else:
            self.port = int(m.group(4))
            self.tls = ssl._create_unverified_context() if m.group(2) == "https" else None
        return self

    def ready(self, timeout=4 * HANG_S):
        if self.url is None:
            self.listening()
        if self.reader:
            self.wait_log("Application startup complete", timeout)
        end = time.monotonic() + timeout * SLACK
        while time.monotonic() < end:
            if self.p.poll() is not None:
                raise AssertionError(f"{self.args} ended with {self.p.returncode} before it was ready:\n{self.log}")
            try:
                if self.get("/ready").status == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.005)
        raise AssertionError(f"not ready after {timeout * SLACK} s:\n{self.log}")

    def connect(self, timeout=HANG_S * SLACK):
        if self.unix:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.settimeout(timeout)
            sock.connect(self.unix)
        else:
            sock = socket.create_connection(("127.0.0.1", self.port), timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.tls.wrap_socket(sock) if self.tls else sock

    def raw(self, blob, wait=HANG_S, half_close=False, until=None):
        """Sends the bytes, reads until the peer closes (or until(bytes))."""
        with self.connect() as sock:
            send(sock, blob)
            if half_close:
                sock.shutdown(socket.SHUT_WR)
            return receive(sock, blob, wait * SLACK, until)

    def request(self, method, target, body=None, headers=None, timeout=4 * HANG_S):
        """One request on a connection of its own."""
        if body is not None:
            body = encode(body)
        blob = http(method, target, body, {"Connection": "close", **(headers or {})})
        t0 = time.monotonic()
        with self.connect(timeout * SLACK) as sock:
            send(sock, blob)
            raw = receive(sock, blob, timeout * SLACK)
        reply = raw.one(heads=(0,) if method == "HEAD" else ())
        reply.ms = (time.monotonic() - t0) * 1e3
        return reply

    def get(self, target, headers=None):
        return self.request("GET", target, headers=headers)

    def post(self, body, headers=None, target="/predict", timeout=4 * HANG_S):
        return self.request("POST", target, body, headers, timeout)

    def file(self, *parts):
        return self.post(data(*parts))

    def metric(self, pattern):
        """The sum of all samples whose line matches."""
        text = self.get("/metrics").is_(200).body.decode()
        values = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if not line.startswith("#") and re.search(pattern, line)]
        assert values, f"no sample like {pattern!r} in\n{text}"
        return sum(values)

    def fds(self):
        return len(os.listdir(f"/proc/{self.p.pid}/fd"))

    def memory_kb(self, *fields):
        with open(f"/proc/{self.p.pid}/status", encoding="ascii") as f:
            rows = dict(line.split(":", 1) for line in f)
        return sum(int(rows[x].split()[0]) for x in fields)

    def cpu_s(self):
        with open(f"/proc/{self.p.pid}/stat", encoding="ascii") as f:
            rest = f.read().rsplit(")", 1)[1].split()
        return (int(rest[11]) + int(rest[12])) / os.sysconf("SC_CLK_TCK")

    def signal(self, number=15):
        if self.p.poll() is None:
            self.p.send_signal(number)

    def wait(self, timeout=HANG_S):
        """Exit code."""
        try:
            code = self.p.wait(timeout * SLACK)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.args} still runs after {timeout * SLACK} s:\n{self.log}") from None
        if self.reader:
            self.reader.join(HANG_S)
        return code

    def clean_log(self):
        for word in REPORTS:
            assert word not in self.log, f"the log has {word!r}:\n{self.log}"
        return self

    def stop(self, number=15, code=0):
        self.signal(number)
        got = self.wait()
        assert got == code, f"exit {got}, expected {code}:\n{self.log}"
        return self.clean_log()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.stop()
        else:
            self.kill()

    def kill(self):
        if self.p.poll() is None:
            self.p.kill()
            self.p.wait()


LIVE = []
atexit.register(lambda: [x.kill() for x in LIVE])


def serve(*args, **kw):
    """A server that is ready."""
    server = Server(*args, **kw)
    try:
        return server.ready()
    except BaseException:
        server.kill()
        raise


def boot_fails(code, *parts, args=(), **kw):
    """The start ends with this code and one clear line with these parts in it. Returns the log."""
    server = Server(*args, **kw)
    try:
        got = server.wait()
    finally:
        server.kill()
    want = code if isinstance(code, tuple) else (code,)
    assert got in want, f"{server.args}: exit {got}, expected {want}:\n{server.log}"
    errors = [x for _, x in server.lines if re.search(r"^gr00t: |Z error ", x)]
    assert len(errors) == 1, f"{server.args}: {len(errors)} error lines, expected one:\n{server.log}"
    for part in parts:
        assert part.lower() in errors[0].lower(), f"{part!r} is not in {errors[0]!r}\n{server.log}"
    server.clean_log()
    return server.log


class Shared:
    server = None
    reply = None
    args = ()
    used = False


def shared():
    """The server of this file: one start, many tests."""
    if Shared.server is None:
        Shared.server = serve(*Shared.args)
        Shared.reply = Shared.server.file("json", "base.json").is_(200)
    Shared.used = True
    return Shared.server


def base_actions():
    shared()
    return Shared.reply.actions()


def unharmed():
    """Health as before, the base request gives the same bytes."""
    s = Shared.server
    assert s.p.poll() is None, f"the server ended with {s.p.returncode}:\n{s.log}"
    assert s.get("/health").is_(200).json()["status"] == "ok"
    now = s.file("json", "base.json")
    assert now.steady() == Shared.reply.steady(), f"the base request answers differently now: {now}\n  before: {Shared.reply}"


def copy_demo(name, **edits):
    """A copy of the demo snapshot; edits: file name with __ for . -> function(bytes) -> bytes, or None to remove the file."""
    to = path(name)
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(DEMO, to)
    for key, edit in edits.items():
        file = os.path.join(to, key.replace("__", "."))
        if edit is None:
            os.unlink(file)
            continue
        with open(file, "rb") as f:
            blob = f.read()
        with open(file, "wb") as f:
            f.write(edit(blob))
    return to


def edit_json(change):
    def edit(blob):
        doc = json.loads(blob)
        change(doc)
        return json.dumps(doc).encode()
    return edit


def wait_for(f, what, timeout=HANG_S):
    """Until f() is true."""
    end = time.monotonic() + timeout * SLACK
    while time.monotonic() < end:
        if f():
            return
        time.sleep(0.005)
    raise AssertionError(what)


def best_of(tries, enough, measure):
    """The least figure of several; the first below `enough` ends it. Any one may meet a busy machine."""
    best = measure()
    for _ in range(tries - 1):
        if best < enough:
            break
        best = min(best, measure())
    return best


def children_cpu_s():
    """CPU time of all children that have ended: unlike the time on the wall, it does not depend on what else runs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def step_ms(model, steps):
    """CPU time of an Euler step: what further predicts of the same program cost."""
    cost = []
    for runs in (1, 11):
        before = children_cpu_s()
        subprocess.run([BIN, "bench", "engine", "--model", model, "--runs", str(runs), "--threads", "1"], check=True, env=clean_env(), stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=4 * HANG_S * SLACK)
        cost.append(children_cpu_s() - before)
    return max((cost[1] - cost[0]) * 1e3 / 10 / steps, 0.01)


def slow_snapshot(seconds):
    """A demo snapshot with so many Euler steps that a predict takes about this long on a CPU of its own. Weights of its own for each number of steps."""
    def make(steps):
        to = path(f"slow{steps}")
        if not os.path.isdir(to):
            subprocess.run([BIN, "synth", "demo", to, "--seed", str(steps)], check=True, env=clean_env(), stdout=subprocess.DEVNULL, timeout=300)
            config = os.path.join(to, "config.json")
            with open(config, encoding="utf-8") as f:
                doc = json.load(f)
            doc["num_inference_timesteps"] = steps
            with open(config, "w", encoding="utf-8") as f:
                json.dump(doc, f)
        return to
    if "step_ms" not in SPEED:
        SPEED["step_ms"] = step_ms(make(100), 110)
    return make(int(min(1000, max(8, seconds * 1e3 / SPEED["step_ms"]))))


SPEED = {}


def predict_cli(model, *more, image=None, state=None, instruction=None, env=None):
    """`gr00t predict --json` on the base request's parts; the parsed chunk."""
    doc = base()
    image = image or os.path.join(DATA, "images", "base_256.png")
    file = path("cli-state.json")
    with open(file, "w", encoding="utf-8") as f:
        json.dump(state or doc["state"], f)
    cmd = [BIN, "predict", "--model", model or DEMO, "--image", image, "--state", file, "--instruction", instruction or doc["instruction"], "--json", *more]
    run = subprocess.run(cmd, env=clean_env(env), capture_output=True, timeout=4 * HANG_S * SLACK)
    assert run.returncode == 0, f"{cmd}: exit {run.returncode}: {run.stderr.decode()}"
    return strict_json(run.stdout)


def tree_tokenizer():
    """The Qwen2 vocabulary, or a skip."""
    folder = os.path.join(SHARED, "spec", "tokenizer")
    if not SHARED or not os.path.isfile(os.path.join(folder, "vocab.json")):
        raise Skip("the Qwen2 vocabulary (GR00T_SHARED/spec/tokenizer) is not there")
    return folder


def in_threads(jobs):
    """Runs the functions at the same time; their results, the first failure raised."""
    out, faults = [None] * len(jobs), []

    def run(i):
        try:
            out[i] = jobs[i]()
        except BaseException as e:  # told by the caller's thread
            faults.append(e)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(jobs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if faults:
        raise faults[0]
    return out


def main():
    set_up()
    only = [a for a in sys.argv[1:] if not a.startswith("-")]
    counts, n = collections.Counter(), 0
    last = [("", "the server ends with 0 and a clean log", finish_shared)]
    for ids, title, f in TESTS + last:
        name = f"{ids} {title}".strip()
        if f is finish_shared and Shared.server is None:
            continue
        if only and f is not finish_shared and not any(o in name for o in only):
            continue
        n += 1
        Shared.used = False
        t0 = time.monotonic()
        try:
            f()
            if Shared.used:
                unharmed()
            print(f"ok {n} - {name}")
            counts["passed"] += 1
        except Skip as e:
            print(f"ok {n} - {name} # SKIP {e}\nskipped: {name}: {e}")
            counts["skipped"] += 1
        except Exception as e:
            text = f"{type(e).__name__}: {e}" if isinstance(e, AssertionError) else traceback.format_exc()
            where = traceback.extract_tb(e.__traceback__)
            here = [x for x in where if "serving.py" not in x.filename] or where
            print(f"not ok {n} - {name}\n# {here[-1].filename}:{here[-1].lineno}\n" + "".join(f"# {line}\n" for line in text.splitlines()), end="")
            counts["failed"] += 1
            if Shared.server and Shared.server.p.poll() is not None:
                print("".join(f"# log: {line}\n" for line in Shared.server.log.splitlines()[-40:]), end="")
                Shared.server = None
        if "-v" in sys.argv:
            print(f"# {time.monotonic() - t0:.2f} s")
        sys.stdout.flush()
    print(f"1..{n}\n{counts['passed']} passed, {counts['failed']} failed" + (f", {counts['skipped']} skipped" if counts["skipped"] else ""))
    sys.exit(1 if counts["failed"] else 0)


def finish_shared():
    server, Shared.server = Shared.server, None
    server.stop()
