# SPDX-License-Identifier: Apache-2.0
"""The network of GR00T N1.6 in PyTorch, as a user of PyTorch would write it: one torch.nn.Linear a tensor of the checkpoint, fused attention.

In: `Network(dims)` and tensors of the shapes of one request. Out: normalised actions [horizon, max_action]. What it leaves out, as any
server should: the vocabulary logits, the token embedding of other ids than the prompt's (the caller passes the rows), the 31 embodiments that
are not served, and the keys and values of the cross blocks are computed once a request, not once a step. `load(folder)` takes the
weights of a snapshot, without it they are random.
"""
import dataclasses
import json
import math
import pathlib
import struct

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Dims:
    """Published sizes; `of` reads others from a snapshot."""
    vit: int = 1152
    vit_mlp: int = 4304
    vit_layers: int = 27
    vit_heads: int = 16
    side: int = 18
    llm: int = 2048
    llm_mlp: int = 6144
    llm_layers: int = 16
    heads: int = 16
    kv_heads: int = 8
    head: int = 128
    dit: int = 1536
    dit_layers: int = 32
    dit_heads: int = 32
    out: int = 1024
    hidden: int = 1024
    max_state: int = 128
    max_action: int = 128
    horizon: int = 50
    steps: int = 4
    buckets: int = 1000
    text_every: int = 2

    @staticmethod
    def of(folder):
        c = json.loads((pathlib.Path(folder) / "config.json").read_text())
        d, e = c["diffusion_model_cfg"], c.get("eagle_config")
        out = Dims(llm_layers=c["select_layer"], llm=c["backbone_embedding_dim"], dit=c["input_embedding_dim"], dit_layers=d["num_layers"],
                   dit_heads=d["num_attention_heads"], out=d["output_dim"], hidden=c["hidden_size"], max_state=c["max_state_dim"],
                   max_action=c["max_action_dim"], horizon=c["action_horizon"], steps=c["num_inference_timesteps"],
                   buckets=c["num_timestep_buckets"], text_every=c["attend_text_every_n_blocks"])
        if e:
            v, t = e["vision_config"], e["text_config"]
            out.vit, out.vit_mlp, out.vit_layers, out.vit_heads = (v[k] for k in ("hidden_size", "intermediate_size", "num_hidden_layers",
                                                                                  "num_attention_heads"))
            out.llm_mlp, out.heads, out.kv_heads, out.head = (t[k] for k in ("intermediate_size", "num_attention_heads",
                                                                             "num_key_value_heads", "head_dim"))
        return out


def split(x, heads):  # [T, heads * d] -> [1, heads, T, d]
    return x.view(x.shape[0], heads, -1).transpose(0, 1)[None]


def attend(q, k, v, heads, kv_heads=None, causal=False):
    """Rows of all heads side by side, and back."""
    o = F.scaled_dot_product_attention(split(q, heads), split(k, kv_heads or heads), split(v, kv_heads or heads), is_causal=causal,
                                       enable_gqa=kv_heads is not None)
    return o[0].transpose(0, 1).reshape(q.shape[0], -1)


class VisionLayer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.heads = d.vit_heads
        self.norm1, self.norm2 = nn.LayerNorm(d.vit, 1e-6), nn.LayerNorm(d.vit, 1e-6)
        self.q, self.k, self.v, self.o = (nn.Linear(d.vit, d.vit) for _ in range(4))
        self.fc1, self.fc2 = nn.Linear(d.vit, d.vit_mlp), nn.Linear(d.vit_mlp, d.vit)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.o(attend(self.q(h), self.k(h), self.v(h), self.heads))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, 1e-6)


class LanguageLayer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.d = d
        q, kv = d.heads * d.head, d.kv_heads * d.head
        self.norm1, self.norm2, self.q_norm, self.k_norm = RmsNorm(d.llm), RmsNorm(d.llm), RmsNorm(d.head), RmsNorm(d.head)
        self.q, self.k, self.v = nn.Linear(d.llm, q, False), nn.Linear(d.llm, kv, False), nn.Linear(d.llm, kv, False)
        self.o = nn.Linear(q, d.llm, False)
        self.gate, self.up, self.down = (nn.Linear(d.llm, d.llm_mlp, False), nn.Linear(d.llm, d.llm_mlp, False),
                                         nn.Linear(d.llm_mlp, d.llm, False))

    def rotate(self, x, norm, cos, sin):
        x = norm(x.view(x.shape[0], -1, self.d.head))
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).flatten(1)

    def forward(self, x, cos, sin):
        h = self.norm1(x)
        q, k = self.rotate(self.q(h), self.q_norm, cos, sin), self.rotate(self.k(h), self.k_norm, cos, sin)
        x = x + self.o(attend(q, k, self.v(h), self.d.heads, self.d.kv_heads, causal=True))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class DitBlock(nn.Module):
    def __init__(self, d, i):
        super().__init__()
        self.heads, self.cross, self.text = d.dit_heads, i % 2 == 0, i % (2 * d.text_every) == 0
        src = d.llm if self.cross else d.dit
        self.ada = nn.Linear(d.dit, 2 * d.dit)
        self.q, self.k, self.v, self.o = nn.Linear(d.dit, d.dit), nn.Linear(src, d.dit), nn.Linear(src, d.dit), nn.Linear(d.dit, d.dit)
        self.ff1, self.ff2 = nn.Linear(d.dit, 4 * d.dit), nn.Linear(4 * d.dit, d.dit)

    def forward(self, x, st, k, v):
        scale, shift = self.ada(st).chunk(2, -1)
        h = F.layer_norm(x, x.shape[-1:], eps=1e-5) * (1 + scale) + shift
        if not self.cross:
            k, v = self.k(h), self.v(h)
        x = x + self.o(attend(self.q(h), k, v, self.heads))
        return x + self.ff2(F.gelu(self.ff1(F.layer_norm(x, x.shape[-1:], eps=1e-5)), approximate="tanh"))


class Network(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.d = d
        self.patch, self.post = nn.Linear(14 * 14 * 3, d.vit), nn.LayerNorm(d.vit, 1e-6)
        self.register_buffer("positions", torch.randn(d.side * d.side, d.vit) * 0.1)
        self.vit = nn.ModuleList(VisionLayer(d) for _ in range(d.vit_layers))
        self.connect = nn.Sequential(nn.LayerNorm(4 * d.vit, 1e-5), nn.Linear(4 * d.vit, d.llm), nn.GELU(), nn.Linear(d.llm, d.llm))
        self.llm = nn.ModuleList(LanguageLayer(d) for _ in range(d.llm_layers))
        self.norm, self.vlln = RmsNorm(d.llm), nn.LayerNorm(d.llm, 1e-5)
        self.state1, self.state2 = nn.Linear(d.max_state, d.hidden), nn.Linear(d.hidden, d.dit)
        self.action1, self.action2, self.action3 = nn.Linear(d.max_action, d.dit), nn.Linear(2 * d.dit, d.dit), nn.Linear(d.dit, d.dit)
        self.register_buffer("rows", torch.randn(d.horizon, d.dit) * 0.1)
        self.time1, self.time2 = nn.Linear(256, d.dit), nn.Linear(d.dit, d.dit)
        self.dit = nn.ModuleList(DitBlock(d, i) for i in range(d.dit_layers))
        self.proj1, self.proj2 = nn.Linear(d.dit, 2 * d.dit), nn.Linear(d.dit, d.out)
        self.decode1, self.decode2 = nn.Linear(d.out, d.hidden), nn.Linear(d.hidden, d.max_action)

    def vision(self, pixels):
        g = self.d.side
        x = pixels.view(3, g, 14, g, 14).permute(1, 3, 2, 4, 0).reshape(g * g, -1)
        x = self.patch(x) + self.positions
        for layer in self.vit:
            x = layer(x)
        x = self.post(x).view(g // 2, 2, g // 2, 2, -1).permute(0, 2, 4, 1, 3)
        return self.connect(x.reshape(g * g // 4, -1))

    def language(self, x):
        frequency = 1e6 ** (-torch.arange(0, self.d.head, 2, dtype=torch.float32) / self.d.head)
        angle = torch.arange(x.shape[0], dtype=torch.float32)[:, None] * frequency
        cos, sin = angle.cos()[:, None].to(x.dtype), angle.sin()[:, None].to(x.dtype)
        for layer in self.llm:
            x = layer(x, cos, sin)
        return self.vlln(self.norm(x))

    def times(self, t, dtype):
        """Embedding of time t for the blocks (cosines first), and the row of the action encoder (sines first)."""
        f = t * torch.exp(torch.arange(128, dtype=torch.float32) * (-math.log(10000.0) / 127))
        temb = self.time2(F.silu(self.time1(torch.cat((f.cos(), f.sin())).to(dtype)[None])))
        n = self.d.dit // 2
        f = t * torch.exp(torch.arange(n, dtype=torch.float32) * (-math.log(10000.0) / n))
        return F.silu(temb), torch.cat((f.sin(), f.cos())).to(dtype).expand(self.d.horizon, -1)

    def velocity(self, a, state, t, keys):
        st, tau = self.times(t, a.dtype)
        x = self.action3(F.silu(self.action2(torch.cat((self.action1(a), tau), 1)))) + self.rows
        x = torch.cat((state, x))
        for block, (k, v) in zip(self.dit, keys):
            x = block(x, st, k, v)
        shift, scale = self.proj1(st).chunk(2, -1)
        y = self.proj2(F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift)
        return self.decode2(F.relu(self.decode1(y)))[1:]

    def forward(self, pixels, text, before, state, noise):
        """text [S - 81, llm]: embedding rows of all other tokens, `before` of them before the image."""
        image = self.vision(pixels)
        vl = self.language(torch.cat((text[:before], image, text[before:])))
        end = before + image.shape[0]
        seen = {True: torch.cat((vl[:before], vl[end:])), False: vl[before:end]}
        keys = [(b.k(seen[b.text]), b.v(seen[b.text])) if b.cross else (None, None) for b in self.dit]
        state = self.state2(F.relu(self.state1(state[None])))
        a = noise
        for step in range(self.d.steps):
            a = a + self.velocity(a, state, float(step * self.d.buckets // self.d.steps), keys) / self.d.steps
        return a


# ---- weights of a snapshot ----


class Snapshot:
    """Tensors by name, float32."""

    def __init__(self, folder):
        self.at = {}
        for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
            with path.open("rb") as f:
                size = struct.unpack("<Q", f.read(8))[0]
                head = json.loads(f.read(size))
            data = torch.from_file(str(path), size=path.stat().st_size, dtype=torch.uint8)
            self.at.update({name: (data, 8 + size, t) for name, t in head.items() if name != "__metadata__"})

    def __call__(self, name, slot=None):
        data, base, t = self.at[name]
        begin, end = t["data_offsets"]
        x = data[base + begin:base + end].clone().view(torch.bfloat16).view(t["shape"])
        return (x if slot is None else x[slot]).float()


def resized(table, grid):
    """Position rows [n * n, D] for grid * grid patches: triangle filter, half-pixel centres."""
    n = math.isqrt(table.shape[0])
    m = torch.zeros(grid, n, dtype=torch.float64)
    for i in range(grid if n != grid else 0):
        c = n / grid * (i + 0.5)
        reach = max(1.0, n / grid)
        for j in range(max(int(c - reach + 0.5), 0), min(int(c + reach + 0.5), n)):
            m[i, j] = max(0.0, 1.0 - abs((j - c + 0.5) / reach))
    m = m / m.sum(1, keepdim=True) if n != grid else torch.eye(n, dtype=torch.float64)
    return torch.einsum("ia,jb,abc->ijc", m, m, table.view(n, n, -1).double()).reshape(grid * grid, -1).float()


def load(net, folder, slot):
    """Fills net with the weights of a snapshot, for one embodiment slot."""
    get = Snapshot(folder)
    vision, llm, head = "backbone.model.vision_model.vision_model.", "backbone.model.language_model.model.", "action_head."

    def put(module, name):
        for part in ("weight", "bias"):
            if getattr(module, part, None) is not None:
                getattr(module, part).data.copy_(get(f"{name}.{part}"))

    def put_slot(module, name):  # [slot, in, out]
        module.weight.data.copy_(get(name + ".W", slot).T)
        module.bias.data.copy_(get(name + ".b", slot))

    put(net.patch, vision + "embeddings.patch_embedding")
    net.positions.copy_(resized(get(vision + "embeddings.position_embedding.weight"), net.d.side))
    for i, m in enumerate(net.vit):
        at = f"{vision}encoder.layers.{i}."
        for part, name in {"norm1": "layer_norm1", "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
                           "o": "self_attn.out_proj", "norm2": "layer_norm2", "fc1": "mlp.fc1", "fc2": "mlp.fc2"}.items():
            put(getattr(m, part), at + name)
    put(net.post, vision + "post_layernorm")
    for i, part in enumerate(("0", "1", None, "3")):
        if part:
            put(net.connect[i], "backbone.model.mlp1." + part)
    for i, m in enumerate(net.llm):
        at = f"{llm}layers.{i}."
        for part, name in {"norm1": "input_layernorm", "norm2": "post_attention_layernorm", "q_norm": "self_attn.q_norm",
                           "k_norm": "self_attn.k_norm", "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
                           "o": "self_attn.o_proj", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}.items():
            put(getattr(m, part), at + name)
    put(net.norm, llm + "norm")
    put(net.vlln, head + "vlln")
    for part, name in {"state1": "state_encoder.layer1", "state2": "state_encoder.layer2", "action1": "action_encoder.W1",
                       "action2": "action_encoder.W2", "action3": "action_encoder.W3", "decode1": "action_decoder.layer1",
                       "decode2": "action_decoder.layer2"}.items():
        put_slot(getattr(net, part), head + name)
    net.rows.copy_(get(head + "position_embedding.weight")[:net.d.horizon])
    for part, name in {"time1": "timestep_encoder.timestep_embedder.linear_1", "time2": "timestep_encoder.timestep_embedder.linear_2",
                       "proj1": "proj_out_1", "proj2": "proj_out_2"}.items():
        put(getattr(net, part), head + "model." + name)
    for i, m in enumerate(net.dit):
        at = f"{head}model.transformer_blocks.{i}."
        for part, name in {"ada": "norm1.linear", "q": "attn1.to_q", "k": "attn1.to_k", "v": "attn1.to_v", "o": "attn1.to_out.0",
                           "ff1": "ff.net.0.proj", "ff2": "ff.net.2"}.items():
            put(getattr(m, part), at + name)
    return get
