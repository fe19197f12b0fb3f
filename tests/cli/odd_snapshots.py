# SPDX-License-Identifier: Apache-2.0
"""Snapshots with sizes that no published checkpoint has: head widths of 2 or 6, layers of width 1, a thousand Euler steps.

In: a demo snapshot (side files, tokenizer) and the sizes to change; out: a folder with one F32, F16 or BF16 file of random
weights under the published names. Nothing but the standard library is used.
"""
import json
import os
import random
import struct

VIT = "backbone.model.vision_model.vision_model."
LLM = "backbone.model.language_model.model."
CONNECTOR = "backbone.model.mlp1."
HEAD = "action_head."
DIT = HEAD + "model."

# v: vision, l: language, d: action head; the demo's sizes where nothing else is asked for.
SIZES = dict(v_hidden=64, v_mlp=176, v_layers=2, v_heads=2, v_table=16, l_hidden=64, l_mlp=160, l_layers=2, l_heads=4, l_kv=2, l_head=32,
             vocab=1040, slots=3, d_width=128, d_hidden=128, d_out=64, d_layers=8, d_heads=4, d_head=32, max_action=128, max_state=128,
             max_seq=64, horizon=50, steps=4, every=2, edge=256, crop=0.95)


def linear(name, out, into, bias=True):
    return [(name + ".weight", (out, into))] + ([(name + ".bias", (out,))] if bias else [])


def norm(name, width, bias=True):
    return [(name + ".weight", (width,))] + ([(name + ".bias", (width,))] if bias else [])


def backbone(s):
    v, f, w = s["v_hidden"], s["v_mlp"], s["l_hidden"]
    t = linear(VIT + "embeddings.patch_embedding", v, 588) + [(VIT + "embeddings.position_embedding.weight", (s["v_table"] ** 2, v))]
    for i in range(s["v_layers"]):
        p = f"{VIT}encoder.layers.{i}."
        t += norm(p + "layer_norm1", v) + norm(p + "layer_norm2", v)
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            t += linear(p + "self_attn." + part, v, v)
        t += linear(p + "mlp.fc1", f, v) + linear(p + "mlp.fc2", v, f)
    t += norm(VIT + "post_layernorm", v) + norm(CONNECTOR + "0", 4 * v) + linear(CONNECTOR + "1", w, 4 * v) + linear(CONNECTOR + "3", w, w)
    q, k, f = s["l_head"] * s["l_heads"], s["l_head"] * s["l_kv"], s["l_mlp"]
    t += [(LLM + "embed_tokens.weight", (s["vocab"], w))]
    for i in range(s["l_layers"]):
        p = f"{LLM}layers.{i}."
        t += norm(p + "input_layernorm", w, False) + norm(p + "post_attention_layernorm", w, False)
        t += norm(p + "self_attn.q_norm", s["l_head"], False) + norm(p + "self_attn.k_norm", s["l_head"], False)
        for part, out, into in (("self_attn.q_proj", q, w), ("self_attn.k_proj", k, w), ("self_attn.v_proj", k, w), ("self_attn.o_proj", w, q),
                                ("mlp.gate_proj", f, w), ("mlp.up_proj", f, w), ("mlp.down_proj", w, f)):
            t += linear(p + part, out, into, False)
    return t + norm(LLM + "norm", w, False) + norm(HEAD + "vlln", w)


def action_head(s):
    w, h, a, o, n = s["d_width"], s["d_hidden"], s["max_action"], s["d_out"], s["slots"]
    t = []
    for name, into, out in (("state_encoder.layer1", s["max_state"], h), ("state_encoder.layer2", h, w), ("action_encoder.W1", a, w),
                            ("action_encoder.W2", 2 * w, w), ("action_encoder.W3", w, w), ("action_decoder.layer1", o, h),
                            ("action_decoder.layer2", h, a)):
        t += [(f"{HEAD}{name}.W", (n, into, out)), (f"{HEAD}{name}.b", (n, out))]
    t += [(HEAD + "position_embedding.weight", (s["max_seq"], w))]
    t += linear(DIT + "timestep_encoder.timestep_embedder.linear_1", w, 256) + linear(DIT + "timestep_encoder.timestep_embedder.linear_2", w, w)
    for i in range(s["d_layers"]):
        p, kv = f"{DIT}transformer_blocks.{i}.", s["l_hidden"] if i % 2 == 0 else w
        for part, out, into in (("norm1.linear", 2 * w, w), ("attn1.to_q", w, w), ("attn1.to_k", w, kv), ("attn1.to_v", w, kv),
                                ("attn1.to_out.0", w, w), ("ff.net.0.proj", 4 * w, w), ("ff.net.2", w, 4 * w)):
            t += linear(p + part, out, into)
    return t + linear(DIT + "proj_out_1", 2 * w, w) + linear(DIT + "proj_out_2", o, w)


def encode(values, dtype):
    if dtype == "BF16":
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    return struct.pack(f"<{len(values)}{'e' if dtype == 'F16' else 'f'}", *values)


def write_weights(path, tensors, dtype):
    draw, header, blobs, at = random.Random(1600), {}, [], 0
    for name, shape in tensors:
        count = 1
        for n in shape:
            count *= n
        gain = name.endswith("norm.weight") or "layer_norm" in name and name.endswith("weight")
        data = encode([draw.uniform(-0.2, 0.2) + gain for _ in range(count)], dtype)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
        blobs.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def make(path, demo, dtype="F32", extra=(), **sizes):
    """Writes the snapshot into the new folder `path`. extra: more tensors, (name, shape)."""
    s = dict(SIZES, **sizes)
    os.makedirs(path)
    for f in os.listdir(demo):
        if not f.startswith("model") and f not in ("config.json", "processor_config.json"):
            os.symlink(os.path.join(demo, f), os.path.join(path, f))
    with open(os.path.join(demo, "config.json")) as f:
        c = json.load(f)
    c.update(backbone_embedding_dim=s["l_hidden"], select_layer=s["l_layers"], max_state_dim=s["max_state"], max_action_dim=s["max_action"],
             action_horizon=s["horizon"], hidden_size=s["d_hidden"], input_embedding_dim=s["d_width"], max_seq_len=s["max_seq"],
             attend_text_every_n_blocks=s["every"], num_inference_timesteps=s["steps"], max_num_embodiments=s["slots"])
    c["diffusion_model_cfg"].update(num_layers=s["d_layers"], num_attention_heads=s["d_heads"], attention_head_dim=s["d_head"],
                                    output_dim=s["d_out"])
    c["eagle_config"] = {
        "vision_config": {"hidden_size": s["v_hidden"], "intermediate_size": s["v_mlp"], "num_hidden_layers": s["v_layers"],
                          "num_attention_heads": s["v_heads"]},
        "text_config": {"hidden_size": s["l_hidden"], "intermediate_size": s["l_mlp"], "num_hidden_layers": s["l_layers"],
                        "num_attention_heads": s["l_heads"], "num_key_value_heads": s["l_kv"], "head_dim": s["l_head"]}}
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(c, f)
    with open(os.path.join(demo, "processor_config.json")) as f:
        p = json.load(f)
    p["processor_kwargs"].update(max_state_dim=s["max_state"], max_action_dim=s["max_action"], max_action_horizon=s["horizon"],
                                 shortest_image_edge=s["edge"], crop_fraction=s["crop"])
    with open(os.path.join(path, "processor_config.json"), "w") as f:
        json.dump(p, f)
    write_weights(path, backbone(s) + action_head(s) + list(extra), dtype)
    return path
