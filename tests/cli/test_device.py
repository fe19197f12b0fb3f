#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`gr00t device` and `gr00t device test`: with stand-ins for the kernel driver's cards (tests/support/kmd_shim.c, loaded with LD_PRELOAD), and with
the simulator when there is one (TTSIM_LIB, else /usr/local/lib/libttsim.so)."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types

from tap import Skip, contains, done, equal, fails, run_tests, test

BIN = os.environ["GR00T_BIN"]
SHIM = os.environ.get("GR_KMD_SHIM", "")
INSTALLED = "/usr/local/lib/libttsim.so"
LIB = os.environ.get("TTSIM_LIB") or (INSTALLED if os.path.exists(INSTALLED) else "")
CLEAN = {k: v for k, v in os.environ.items() if k not in ("TTSIM_LIB", "TT_DEVICE_ID", "TT_METAL_VISIBLE_DEVICES")}


def gr00t(*args, env=None, timeout=250):
    r = subprocess.run([BIN, "device", *args], env=env or CLEAN, capture_output=True, text=True, timeout=timeout)
    return types.SimpleNamespace(returncode=r.returncode, out=r.stdout, err=r.stderr)


class Machine:
    """A machine with these cards: {number: "words of kmd_shim.c"}."""

    def __init__(self, **cards):
        if not SHIM:
            raise Skip("no stand-in for the driver in a sanitized build")
        self.dir = tempfile.TemporaryDirectory(prefix="gr-kmd-")
        for name, words in cards.items():
            (pathlib.Path(self.dir.name) / name.lstrip("n")).write_text(words)
        self.env = CLEAN | {"GR_TEST_KMD": self.dir.name, "LD_PRELOAD": SHIM}

    def gr00t(self, *args, **env):
        return gr00t(*args, env=self.env | env)


@test
def without_a_card_the_list_says_where_it_looked():
    run = done(Machine().gr00t())
    contains(run.out, "no card", "/dev/tenstorrent", "tt-kmd 2.0.0")
    equal(json.loads(done(Machine().gr00t("--json")).out), [])


@test
def cards_are_listed_with_what_they_are():
    run = done(Machine(n0="", n3="board=45 columns=11 firmware=13040100 driver=2.6.0").gr00t())
    lines = [x.split() for x in run.out.splitlines()]
    equal(lines[0][0], "device")
    equal(lines[1][:3] + lines[1][-1:], ["/dev/tenstorrent/0", "p150a", "120", "free"])
    equal(lines[2][:3], ["/dev/tenstorrent/3", "p300a", "110"])
    contains(run.out, "18.7.0", "19.4.1", "2.10.1", "2.6.0", "1350", "0000:c1:00.0", "8 x 4 GiB")


@test
def the_list_as_json_has_every_figure():
    cards = json.loads(done(Machine(n0="").gr00t("--json")).out)
    equal(cards, [{
        "device": "/dev/tenstorrent/0", "state": "free", "simulator": False, "board": "p150a", "serial": "0000040000001234",
        "tensix_columns": 12, "tensix_tiles": 120, "dram_channels": 8, "firmware": "18.7.0.0", "driver": "2.10.1", "aiclk_mhz": 1350,
        "axiclk_mhz": 960, "arcclk_mhz": 800, "dram_mts": 16000, "celsius": 45.5, "pci": "0000:c1:00.0", "note": None, "error": None}])


@test
def a_card_that_cannot_be_used_is_listed_and_is_exit_7():
    machine = Machine(n0="interface=1 driver=1.34.0", n1="")
    run = fails(machine.gr00t(), 7, "/dev/tenstorrent/0", "tt-kmd 1.34.0 is too old", "2.0.0")
    equal([x.split()[-1] for x in run.out.splitlines()[1:]], ["error", "free"])
    run = machine.gr00t("--json")
    equal(run.returncode, 7)
    contains(json.loads(run.out)[0]["error"], "too old")
    equal([x.split()[1:8] for x in machine.gr00t().out.splitlines()[1:2]], [["-", "-", "-", "-", "1.34.0", "-", "-"]])


@test
def a_board_with_seven_channels_is_listed_as_unsupported():
    run = fails(Machine(n0="channels=7 board=43").gr00t(), 7, "board p100a has 7 of 8 DRAM channels")
    equal(run.out.splitlines()[1].split()[1], "p100a")
    equal(run.out.splitlines()[1].split()[-1], "unsupported")


BAD = [
    ("", ["--device-id", "5"], "/dev/tenstorrent/5: no such device"),
    ("open=13", [], "no permission"),
    ("interface=1 driver=1.34.0", [], "tt-kmd 1.34.0 is too old: 2.0.0 or later is needed"),
    ("pci=401e", [], "not a Blackhole"),
    ("channels=7 board=43", [], "board p100a has 7 of 8 DRAM channels"),
    ("mute=34 firmware=12000000", [], "firmware 18.0.0 does not say which Tensix columns work"),
    ("table=0", [], "no telemetry table"),
    ("boot=0", [], "firmware is not up"),
    ("gone=1", [], "all ones"),
    ("fail=11:12", [], "no window"),
    ("fail=13:19", [], "the card was reset or taken out"),
]


@test
def a_test_of_what_cannot_work_is_one_line_and_exit_7():
    for words, args, part in BAD:
        run = fails(Machine(n0=words).gr00t("test", *args), 7, part, start="gr00t: device test: ")
        equal(run.out, "", words)
        equal(len(run.err.splitlines()), 1, words)


@test
def the_card_of_another_process_is_busy():
    machine = Machine(n0="")
    # `memory` works on a card that computes nothing until it waits for the tiles, which takes seconds.
    first = subprocess.Popen([BIN, "device", "test", "memory"], env=machine.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        first.stdout.readline()
        fails(machine.gr00t("test", "hello"), 7, "busy: another gr00t holds the card")
        equal(done(machine.gr00t()).out.splitlines()[1].split()[-1], "busy")
    finally:
        first.kill()
        first.communicate()
    equal(done(machine.gr00t()).out.splitlines()[1].split()[-1], "free")  # also after a kill


def ended(machine, change):
    """A test of card 0 that waits for a tile, and what is left of it after `change(folder)`, made until it ends: the stand-in may still be storing
    what the program sent to all tiles, which brings memory back that was taken away."""
    run = subprocess.Popen([BIN, "device", "test", "memory"], env=machine.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for line in run.stdout:
            if line.startswith("PASS DRAM, host"):
                break
        else:
            if "riscv64-unknown-elf-gcc" in run.stderr.read():
                raise Skip("the build has no programs for the chip")
        until = time.monotonic() + 100
        while run.poll() is None and time.monotonic() < until:
            change(pathlib.Path(machine.dir.name))
            time.sleep(0.02)
        out, err = run.communicate(timeout=1)
    finally:
        run.kill()
    return types.SimpleNamespace(returncode=run.returncode, out=out, err=err)


@test
def a_card_that_is_reset_under_a_process_ends_it():
    machine = Machine(n0="")
    # The driver takes the windows away: the next look is SIGBUS.
    run = fails(ended(machine, lambda folder: os.truncate(folder / "0.mem", 0)), 7, "the card was reset or taken out while it was in use")
    equal(len(run.err.splitlines()), 1)
    (pathlib.Path(machine.dir.name) / "0.mem").unlink()
    contains(machine.gr00t("test", "memory").out, "PASS L1, host")


@test
def a_driver_that_fails_under_a_process_ends_it():
    for words, part in (("gone=1", "all ones"), ("fail=13:19", "the card was reset or taken out")):
        machine = Machine(n0="")
        run = ended(machine, lambda folder: (folder / "0").write_text(words))
        equal(run.returncode, 7, words)
        contains(run.out + run.err, part)
        (pathlib.Path(machine.dir.name) / "0").write_text("")
        contains(machine.gr00t("test", "memory").out, "PASS L1, host")


@test
def a_card_whose_cores_are_silent_fails():
    run = Machine(n0="").gr00t("test", "hello")
    if "riscv64-unknown-elf-gcc" in run.err:
        raise Skip("the build has no programs for the chip")
    fails(run, 7, "1 check did not pass")
    contains(run.out, "/dev/tenstorrent/0: p150a, 120 Tensix tiles", "FAIL hello: 0 of 120 tiles", "(1, 2): a core does not answer, these answer: none",
             "12 of 12 columns silent")


@test
def memory_through_the_host_windows_is_checked_on_a_card():
    run = Machine(n0="").gr00t("test", "memory")
    contains(run.out, "PASS L1, host: 2.0 MB, write", "PASS DRAM, host: 6.3 MB, write")


@test
def the_environment_names_the_card():
    contains(fails(Machine(n0="").gr00t("test", "hello", TT_DEVICE_ID="4"), 7).err, "/dev/tenstorrent/4")
    contains(fails(Machine(n0="").gr00t("test", "hello", TT_DEVICE_ID="1", TT_METAL_VISIBLE_DEVICES="0,5"), 7).err, "/dev/tenstorrent/5")
    contains(fails(Machine(n3="boot=0", n7="").gr00t("test", "hello"), 7).err, "/dev/tenstorrent/3")  # the first there is
    contains(fails(Machine().gr00t("test", "hello"), 7).err, "/dev/tenstorrent/0: no such device", "--sim LIB or TTSIM_LIB", "docs/DEVICES.md")
    fails(Machine(n0="").gr00t("test", "hello", TT_DEVICE_ID="x"), 2, "TT_DEVICE_ID")
    # A card that is named is meant, whatever simulator the environment has.
    contains(fails(Machine(n0="").gr00t("test", "--device-id", "6", TTSIM_LIB="/nowhere.so"), 7).err, "/dev/tenstorrent/6")
    contains(fails(Machine(n0="").gr00t("test", TTSIM_LIB="/nowhere.so"), 7).err, "/nowhere.so")


@test
def words_and_options_that_make_no_sense_are_usage():
    fails(gr00t("test", "speed"), 2, "unknown check", "hello, memory, matmul or all")
    fails(gr00t("test", "--sim", "x.so", "--device-id", "1"), 2, "two devices")
    fails(gr00t("test", "--device-id", "-1"), 2)


@test
def a_library_that_is_no_simulator_is_refused():
    fails(gr00t("test", "--sim", "/nowhere.so"), 7, "/nowhere.so")
    libc = next((p for p in ("/lib/x86_64-linux-gnu/libm.so.6", "/usr/lib/libm.so.6") if os.path.exists(p)), None)
    if libc:
        fails(gr00t("test", "--sim", libc), 7, "not a Blackhole build of ttsim")
    run = gr00t("--sim", "/nowhere.so")
    equal(run.returncode, 7)


def need_simulator():
    if not LIB:
        raise Skip("no simulator: TTSIM_LIB is not set and there is no " + INSTALLED)


@test
def the_simulator_is_listed():
    need_simulator()
    row = json.loads(done(gr00t("--json", env=CLEAN | {"TTSIM_LIB": LIB})).out)[-1]
    equal(row["simulator"], True)
    equal(row["tensix_tiles"], 140)
    contains(row["device"], "ttsim")


@test
def the_simulator_answers_and_multiplies():
    need_simulator()
    for what, parts in (("hello", ["PASS hello: 140 of 140 tiles"]), ("matmul", ["PASS bf16 x bf16", "PASS bf16 x bfp8_b"])):
        run = gr00t("test", what, "--sim", LIB)
        if "riscv64-unknown-elf-gcc" in run.err:
            raise Skip("the build has no programs for the chip")
        contains(done(run).out, *parts)


if __name__ == "__main__":
    sys.exit(run_tests())
