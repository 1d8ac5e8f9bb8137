"""Small models with the interfaces of Hugging Face's transformers: a registry of attention functions
that modules ask by the name in their configuration, and the attention of T5."""

import math
from collections.abc import MutableMapping
from types import SimpleNamespace

import torch
from torch import nn


def repeat_heads(x, module):
    return x.repeat_interleave(module.num_key_value_groups, 1)


def softmax_of(module, scores, value, sinks=None):
    if sinks is not None:
        column = sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        weights = torch.cat([scores, column], -1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    return (weights @ repeat_heads(value, module)).transpose(1, 2).contiguous(), weights


def eager_attention_forward(module, query, key, value, attention_mask, scaling=None, dropout=0.0,
                            softcap=None, s_aux=None, **_):
    """What the mask says, and nothing else."""
    del dropout
    scores = query @ repeat_heads(key, module).transpose(2, 3) * scaling
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if attention_mask is not None:
        scores = scores + attention_mask[..., :key.shape[-2]]
    return softmax_of(module, scores, value, s_aux)


def sdpa_attention_forward(module, query, key, value, attention_mask, scaling=None, is_causal=None,
                           **_):
    """Causal by itself if there is no mask; no soft cap."""
    scale = query.shape[-1]**-0.5 if scaling is None else scaling
    scores = query @ repeat_heads(key, module).transpose(2, 3) * scale
    causal = module.is_causal if is_causal is None else is_causal
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, -math.inf)
    elif causal and query.shape[2] > 1:
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(ahead, -math.inf)
    out, _ = softmax_of(module, scores, value)
    return out, None


def flash_attention_forward(module, query, key, value, attention_mask, scaling=None,
                            sliding_window=None, softcap=None, s_aux=None, is_causal=None, **_):
    """The mask (B, L) says which keys are padding; each sequence is computed without it."""
    batch, queries, keys = query.shape[0], query.shape[2], key.shape[2]
    causal = module.is_causal if is_causal is None else is_causal
    real = torch.ones(batch, keys, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
    out = torch.zeros(batch, queries, query.shape[1], value.shape[-1])
    for b in range(batch):
        columns = real[b].nonzero()[:, 0]
        rows = columns if queries == keys else torch.arange(queries)
        scores = query[b:b + 1, :, rows] @ repeat_heads(key[b:b + 1, :, columns], module).mT * scaling
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        place = torch.arange(len(rows))[:, None] + len(columns) - len(rows)
        behind = place - torch.arange(len(columns))[None]
        if causal:
            scores = scores.masked_fill(behind < 0, -math.inf)
        if sliding_window is not None:
            scores = scores.masked_fill(behind.abs() >= sliding_window, -math.inf)
        out[b, rows] = softmax_of(module, scores, value[b:b + 1, :, columns], s_aux)[0][0]
    return out, None


def flex_attention_forward(module, query, key, value, attention_mask, scaling=None, **_):
    """The mask is a function of places."""
    places = torch.meshgrid(*(torch.arange(n) for n in (len(query), 1, query.shape[2], key.shape[2])),
                            indexing="ij")
    scores = query @ repeat_heads(key, module).mT * scaling
    scores = scores.masked_fill(~attention_mask.mask_mod(*places), -math.inf)
    return softmax_of(module, scores, value)[0].nan_to_num(), None


class AttentionInterface(MutableMapping):
    """Entries of its own before those that all registries share."""

    _global_mapping = {"sdpa": sdpa_attention_forward, "flash_attention_2": flash_attention_forward,
                       "flex_attention": flex_attention_forward}

    def __init__(self):
        self._local_mapping = {}

    def __getitem__(self, key):
        return self._local_mapping.get(key) or self._global_mapping[key]

    def __setitem__(self, key, value):
        self._local_mapping[key] = value

    def __delitem__(self, key):
        del self._local_mapping[key]

    def __iter__(self):
        return iter(self._global_mapping | self._local_mapping)

    def __len__(self):
        return len(self._global_mapping | self._local_mapping)

    def get_interface(self, name, default):
        return self.get(name, default)


ALL_ATTENTION_FUNCTIONS = AttentionInterface()


class Attention(nn.Module):
    """Grouped heads, rotary or not, with whatever the configuration has."""

    def __init__(self, config, layer):
        super().__init__()
        self.config, self.layer_idx, self.is_causal = config, layer, True
        self.num_key_value_groups = config.heads // config.key_heads
        self.scaling = config.scaling
        for name, heads in (("q", config.heads), ("k", config.key_heads), ("v", config.key_heads)):
            setattr(self, f"{name}_proj", nn.Linear(config.width, heads * config.depth))
        self.o_proj = nn.Linear(config.heads * config.depth, config.width)
        if config.sinks:
            self.sinks = nn.Parameter(torch.randn(config.heads))

    def forward(self, hidden_states, attention_mask=None, cache=None):
        q, k, v = (linear(hidden_states).unflatten(-1, (-1, self.config.depth)).transpose(1, 2)
                   for linear in (self.q_proj, self.k_proj, self.v_proj))
        if self.config.rotary:
            q, k = (x * torch.linspace(0.5, 1.5, x.shape[2])[:, None] for x in (q, k))
        if cache is not None:
            k, v = (torch.cat([old, new], 2) for old, new in zip(cache.get(self.layer_idx, (
                k[:, :, :0], v[:, :, :0])), (k, v)))
            cache[self.layer_idx] = k, v
        more = {"s_aux": self.sinks} if self.config.sinks else {}
        interface = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation,
                                                          eager_attention_forward)
        out, _ = interface(self, q, k, v, attention_mask, dropout=0.0, scaling=self.scaling,
                           sliding_window=self.config.window, softcap=self.config.softcap, **more)
        self.made = out.transpose(1, 2)
        return self.o_proj(out.reshape(*hidden_states.shape[:-1], -1))


class Decoder(nn.Module):
    """Words, layers of attention with a normalisation before each, no more."""

    def __init__(self, implementation="sdpa", layers=2, window=None, softcap=None, sinks=False,
                 rotary=False, scaling=8**-0.5, name_or_path="small/decoder"):
        super().__init__()
        self.config = SimpleNamespace(
            _attn_implementation=implementation, heads=6, key_heads=2, depth=8, width=16,
            window=window, softcap=softcap, sinks=sinks, rotary=rotary, scaling=scaling,
            name_or_path=name_or_path)
        self.embed_tokens = nn.Embedding(50, 16)
        self.layers = nn.ModuleList(nn.ModuleDict({"norm": nn.LayerNorm(16), "self_attn": Attention(
            self.config, n)}) for n in range(layers))

    def mask(self, real, queries, past):
        """The mask that the implementation takes, for real keys (B, past + queries)."""
        keys = real.shape[-1]
        if self.config._attn_implementation.startswith("flash"):
            return None if real.all() else real.long()
        window = self.config.window or keys

        def allowed(b, h, i, j):
            del h
            return real[b, j] & (j <= i + past) & (j > i + past - window)

        if self.config._attn_implementation == "flex_attention":
            return SimpleNamespace(mask_mod=allowed)
        b, h, i, j = torch.meshgrid(*map(torch.arange, (len(real), 1, queries, keys)), indexing="ij")
        open_ = allowed(b, h, i, j)
        if self.config._attn_implementation == "eager":
            return torch.zeros(open_.shape).masked_fill(~open_, torch.finfo(torch.float32).min)
        if real.all() and not past and self.config.window is None:
            return None
        return open_ | ~open_.any(-1, keepdim=True)  # PyTorch gives NaN where nothing is allowed

    def forward(self, input_ids=None, attention_mask=None, cache=None):
        past = 0 if not cache else cache[0][0].shape[2]
        keys = past + input_ids.shape[1]
        real = torch.ones(len(input_ids), keys) if attention_mask is None else attention_mask
        mask = self.mask(real.bool(), input_ids.shape[1], past)
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = x + layer["self_attn"](hidden_states=layer["norm"](x), attention_mask=mask, cache=cache)
        return x


class T5Attention(nn.Module):
    """Scores without a scale, a bias by relative position that the first layer makes, and the mask
    in it."""

    def __init__(self, is_decoder, has_relative_attention_bias):
        super().__init__()
        self.is_decoder, self.n_heads, self.key_value_proj_dim = is_decoder, 4, 6
        self.has_relative_attention_bias = has_relative_attention_bias
        for name in "qkv":
            setattr(self, name, nn.Linear(16, 24, bias=False))
        self.o = nn.Linear(24, 16, bias=False)
        if has_relative_attention_bias:
            self.relative_attention_bias = nn.Embedding(32, 4)

    def bias(self, length):
        ahead = torch.arange(length)[None] - torch.arange(length)[:, None]
        bucket, side = torch.zeros_like(ahead), 32
        if not self.is_decoder:
            side = 16
            bucket, ahead = bucket + (ahead > 0) * side, -ahead.abs()
        behind = -ahead.clamp(max=0)
        far = side // 2 + (torch.log(behind.clamp(min=1) / (side // 2)) / math.log(256 / side) *
                           (side // 2)).long()
        bucket = bucket + torch.where(behind < side // 2, behind, far.clamp(max=side - 1))
        return self.relative_attention_bias(bucket).permute(2, 0, 1).unsqueeze(0)

    def forward(self, hidden_states, mask=None, key_value_states=None, position_bias=None):
        source = hidden_states if key_value_states is None else key_value_states
        q, k, v = (linear(x).unflatten(-1, (4, 6)).transpose(1, 2) for linear, x in (
            (self.q, hidden_states), (self.k, source), (self.v, source)))
        scores = q @ k.mT
        if position_bias is None:
            position_bias = (self.bias(q.shape[2]) if self.has_relative_attention_bias else
                             torch.zeros(1, 4, *scores.shape[-2:]))
            if mask is not None:
                position_bias = position_bias + mask
        out = (scores + position_bias).softmax(-1) @ v
        self.made = out
        return self.o(out.transpose(1, 2).flatten(2)), position_bias


class T5(nn.Module):
    """An encoder of two layers and a decoder of one: attention of all three kinds."""

    def __init__(self):
        super().__init__()
        self.shared = nn.Embedding(50, 16)
        self.encoder = nn.ModuleList(T5Attention(False, n == 0) for n in range(2))
        self.decoder = T5Attention(True, True)
        self.cross = T5Attention(True, False)

    @staticmethod
    def added(allowed):
        return torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)

    def forward(self, input_ids, decoder_input_ids, attention_mask):
        padding = self.added(attention_mask.bool()[:, None, None])
        x, bias = self.shared(input_ids), None
        for layer in self.encoder:
            more, bias = layer(x, mask=padding, position_bias=bias)
            x = x + more
        y = self.shared(decoder_input_ids)
        length = y.shape[1]
        causal = self.added(torch.ones(length, length).tril().bool()[None, None])
        y = y + self.decoder(y, mask=causal)[0]
        return y + self.cross(y, mask=padding, key_value_states=x)[0]
