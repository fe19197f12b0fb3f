#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that n1d6.py computes the same network as this engine: same weights, same inputs, normalised actions side by side.

    bench/peers/check.py SNAPSHOT CASE_DIR

CASE_DIR is a golden case of `gr00t check` (inputs.safetensors, taps_fp32.safetensors). Exit code 1 when an action is off by more than 1e-3 of
the largest one.
"""
import json
import pathlib
import struct
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import n1d6  # noqa: E402

IMAGE = 151669
BOUND = 1e-3  # of the largest action: fp32 sums in another order differ by 1e-5


def arrays(path):
    raw = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    kinds = {"F32": torch.float32, "I32": torch.int32, "I64": torch.int64, "U8": torch.uint8}
    return {name: torch.frombuffer(bytearray(raw[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]),
                                   dtype=kinds[t["dtype"]]).view(t["shape"])
            for name, t in json.loads(raw[8:8 + size]).items() if name != "__metadata__"}


@torch.inference_mode()
def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, case = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    slot = json.loads((folder / "embodiment_id.json").read_text())["gr1"]
    dims = n1d6.Dims.of(folder)
    net = n1d6.Network(dims)
    get = n1d6.load(net, folder, slot)
    data, want = arrays(case / "inputs.safetensors"), arrays(case / "taps_fp32.safetensors")["action_pred"]
    ids = data["input_ids"].flatten().long()
    text = get("backbone.model.language_model.model.embed_tokens.weight", ids[ids != IMAGE])
    before = int((ids == IMAGE).nonzero()[0])
    noise = data["noise"].view(dims.horizon, dims.max_action)
    got = net(data["pixel_values"].view(3, dims.side * 14, dims.side * 14), text, before, data["state"].flatten(), noise)
    worst = float((got - want.view(got.shape)).abs().max() / want.abs().max())
    print(f"{case.name}: largest difference {worst:.1e} of the largest action")
    sys.exit(worst > BOUND)


if __name__ == "__main__":
    main()
