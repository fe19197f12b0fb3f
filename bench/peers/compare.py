#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the network in PyTorch beside this engine and prints the table of docs/COMPARISON.md.

    bench/peers/compare.py --model DIR [--policy auto] [--threads 2] [--rounds 3]

Every round of a PyTorch variant is one run of it and one predict of a `gr00t serve` that waits beside it, so both meet the same clock and the
same neighbours; the ratio is the median over the rounds. Needs PyTorch (pip install torch) and memory for the fp32 weights (13 GB) and the engine.
PyTorch gets the weights of DIR and starts from pixels and embedding rows (no picture, no tokenizer); ours is
encode + device + decode_actions as the service reports them. PCC: normalised actions that are used, against PyTorch fp32.
"""
import argparse
import datetime
import gc
import http.client
import json
import os
import pathlib
import platform
import signal
import socket
import statistics
import subprocess
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).parent))
warnings.filterwarnings("ignore")  # the quantiser of PyTorch is deprecated in favour of another package
try:
    import torch
    import n1d6
except ImportError as missing:
    sys.exit(f"{missing}: this comparison needs PyTorch in {sys.executable} (python3 -m venv V; V/bin/pip install torch)")

IMAGE_TOKENS, BEFORE, TOKENS = 81, 32, 116  # a prompt with 12 tokens of instruction: 32 rows, the image, 3 rows
USED_ROWS, USED_COLS = 16, 29               # of the chunk, for embodiment gr1
WARM_UPS, PAUSE_S = 1, 0.05                 # the pause lets the other side's threads fall asleep


class Ours:
    """A service of this engine; run() is the milliseconds of one predict."""

    def __init__(self, a):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.process = subprocess.Popen([a.gr00t, "serve", "--model", a.model, "--policy", a.policy, "--threads", str(a.threads), "--port",
                                         str(self.port), "--quiet"])
        end = time.monotonic() + a.boot_s
        while self.ask("GET", "/ready")[0] != 200:
            if self.process.poll() is not None or time.monotonic() > end:
                self.close()
                sys.exit(f"{a.gr00t} serve did not become ready")
            time.sleep(0.5)
        self.request = json.dumps(self.ask("GET", "/demo")[1]["request"])
        self.info = self.ask("GET", "/info")[1]

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            c.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            r = c.getresponse()
            return r.status, json.loads(r.read())
        except OSError:
            return 0, None
        finally:
            c.close()

    def run(self):
        status, chunk = self.ask("POST", "/predict", self.request)
        if status != 200:
            raise RuntimeError(f"the service answered {status}: {chunk}")
        t = chunk["timing_ms"]
        return t["encode"] + t["device"] + t["decode_actions"]

    def close(self):
        self.process.terminate()
        self.process.wait(60)


def network(folder, dtype):
    """The weights of a snapshot; made without values first, so that memory holds them once."""
    torch.set_default_dtype(dtype)
    with torch.device("meta"):
        net = n1d6.Network(n1d6.Dims.of(folder))
    net = net.to_empty(device="cpu").eval().requires_grad_(False)
    torch.set_default_dtype(torch.float32)
    n1d6.load(net, folder, json.loads((pathlib.Path(folder) / "embodiment_id.json").read_text(encoding="utf-8"))["gr1"])
    return net


def inputs(d):
    g = torch.Generator().manual_seed(42)
    side = 14 * d.side
    return [torch.rand(3, side, side, generator=g) * 2 - 1, torch.randn(TOKENS - IMAGE_TOKENS, d.llm, generator=g) * 0.5, BEFORE,
            torch.randn(d.max_state, generator=g) * 0.5, torch.randn(d.horizon, d.max_action, generator=g)]


def compiled(net):
    """Layer by layer: compiling the whole loop takes many times as long and runs no faster."""
    for layer in [*net.vit, *net.llm, *net.dit]:
        layer.compile()
    return net


def int8(net):
    return torch.ao.quantization.quantize_dynamic(net, {torch.nn.Linear}, dtype=torch.qint8, inplace=True)


def variants(a):
    """(name, network), one in memory at a time."""
    net = network(a.model, torch.float32) if set(a.only) & {"fp32", "compile", "int8"} else None
    if "fp32" in a.only:
        yield "PyTorch fp32 eager", net
    if "compile" in a.only:
        yield "PyTorch fp32 torch.compile", compiled(net)
        for layer in [*net.vit, *net.llm, *net.dit]:
            layer._compiled_call_impl = None  # pylint: disable=protected-access
    if "int8" in a.only:
        yield "PyTorch int8 dynamic", int8(net)
    del net
    gc.collect()
    if "bf16" in a.only:
        yield "PyTorch bf16 eager", network(a.model, torch.bfloat16)


@torch.inference_mode()
def measure(name, net, ours, a):
    kind = next(p.dtype for p in net.parameters())
    data = [x.to(kind) if torch.is_tensor(x) else x for x in inputs(net.d)]
    start = time.monotonic()
    for _ in range(WARM_UPS):
        out = net(*data)
    first, rounds = time.monotonic() - start, []
    for _ in range(a.rounds):
        time.sleep(PAUSE_S)
        start = time.perf_counter()
        out = net(*data)
        theirs = 1000 * (time.perf_counter() - start)
        time.sleep(PAUSE_S)
        rounds.append((theirs, ours.run()))
        print(f"{name}: {theirs:.0f} ms, ours {rounds[-1][1]:.0f} ms", file=sys.stderr, flush=True)
    return {"name": name, "rounds": rounds, "first_s": first, "actions": out.float()[:USED_ROWS, :USED_COLS].flatten()}


def pcc(x, y):
    return float(torch.corrcoef(torch.stack((x, y)).double())[0, 1])


def table(results, reference):
    yield "| engine | p50 ms | min | max | ours in the same rounds, p50 ms | ratio | PCC against PyTorch fp32 |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for r in results:
        theirs, mine = zip(*r["rounds"])
        ratio = statistics.median(t / m for t, m in r["rounds"])
        same = f"{pcc(r['actions'], reference):.6f}" if reference is not None else "not measured"
        yield (f"| {r['name']} | {statistics.median(theirs):.0f} | {min(theirs):.0f} | {max(theirs):.0f} | "
               f"{statistics.median(mine):.0f} | {ratio:.2f} | {same} |")


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True, help="full-size snapshot, gr00t synth full DIR makes one")
    p.add_argument("--policy", default="auto", help="ours")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", default="fp32,compile,int8,bf16", type=lambda s: s.split(","))
    p.add_argument("--gr00t", default=str(ROOT / "gr00t"), help="our program")
    p.add_argument("--boot-s", type=int, default=900, help="how long ours may take to pack and calibrate")
    a = p.parse_args()
    if not os.access(a.gr00t, os.X_OK):
        sys.exit(f"no program {a.gr00t}: run make, or name it with --gr00t")
    torch.set_num_threads(a.threads)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that our service ends too
    ours, results = Ours(a), []
    try:
        for name, net in variants(a):
            results.append(measure(name, net, ours, a))
            del net
    finally:
        ours.close()
    print(f"{datetime.date.today()}, {cpu_name()}, {a.threads} threads, {a.rounds} rounds, PyTorch {torch.__version__}, ours: "
          f"{ours.info['source']['server_version']}, policy {ours.info['stage']['policy']}\n")
    reference = next((r["actions"] for r in results if "fp32" in r["name"]), None)
    print("\n".join(table(results, reference)))


if __name__ == "__main__":
    main()
