"""A stand-in for Hugging Face's transformers: AutoConfig, AutoTokenizer and AutoModel, whose
from_pretrained() reads a folder with a config.json, and tiny models with random weights."""

import json
import os
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

from registry_models import T5, Decoder

CACHED = "tiny/decoder"  # a name in the cache; the folder is `cached`


class WordsAttention(nn.Module):
    """As BERT has it: eager attention in forward(), else scaled_dot_product_attention."""

    def __init__(self, implementation):
        super().__init__()
        self.implementation = implementation
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        q, k, v = (linear(x).unflatten(-1, (2, 8)).transpose(1, 2)
                   for linear in (self.query, self.key, self.value))
        if self.implementation == "sdpa":
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            out = (q @ k.mT * 8**-0.5).softmax(-1) @ v
        return out.transpose(1, 2).flatten(2)


class Words(nn.Module):
    def __init__(self, implementation):
        super().__init__()
        self.words, self.position_embeddings = nn.Embedding(50, 16), nn.Embedding(12, 16, padding_idx=1)
        self.layers = nn.ModuleList(nn.ModuleDict({"attention": WordsAttention(implementation)})
                                    for _ in range(2))

    def forward(self, input_ids, attention_mask=None, use_cache=True):
        assert not use_cache and not self.training and attention_mask.all()
        x = self.words(input_ids) + self.position_embeddings(torch.arange(input_ids.shape[1]) + 2)
        for layer in self.layers:
            x = x + layer["attention"](x)
        return x


class OnlyEager(Words):
    """Attention that is not seen in any implementation."""

    def __init__(self, implementation):
        if implementation != "eager":
            raise ValueError("OnlyEager does not support scaled_dot_product_attention")
        super().__init__(implementation)


class Pictures(nn.Module):
    """Takes no text."""

    def forward(self, pixel_values):
        raise AssertionError(pixel_values)


MODELS = {"decoder": Decoder, "t5": lambda _: T5(), "words": Words, "only-eager": OnlyEager,
          "pictures": lambda _: Pictures()}


def _read(name, given):
    """The configuration of a model; `given` are the keywords of from_pretrained()."""
    assert given.pop("local_files_only") is True and given.pop("trust_remote_code") is False
    assert os.environ["HF_HUB_OFFLINE"] == "1" and not given, given
    folder = "cached" if name == CACHED else name
    if not os.path.isdir(folder):
        raise OSError(f"Can't load {name} from the hub.\nCheck your connection.")
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = SimpleNamespace(name_or_path=name, **json.load(file))
    if config.model_type not in MODELS:
        raise ValueError(f"Unrecognized model type {config.model_type}.\nThe types are: …")
    return config


class Tokenizer:
    """Words of a vocabulary of ten, behind a start token."""

    WORDS = ["<s>", "the", "cat", "sat", "on", "mat", "?"]

    def __call__(self, text, return_tensors=None):
        assert return_tensors == "pt"
        known = [min(self.WORDS.index(word) if word in self.WORDS else 6, 6) for word in text.split()]
        ids = torch.tensor([[0, *known]])
        return {"input_ids": ids, "token_type_ids": torch.zeros_like(ids),
                "attention_mask": torch.ones_like(ids)}

    def convert_ids_to_tokens(self, ids):
        return [self.WORDS[one] for one in ids]


class AutoConfig:
    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, **kwargs):
        return _read(pretrained_model_name_or_path, kwargs)


class AutoTokenizer:
    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *inputs, **kwargs):
        config = _read(pretrained_model_name_or_path, kwargs)
        if not getattr(config, "tokens", True):
            raise OSError("Can't load tokenizer.\nMake sure that it is there.")
        return Tokenizer(*inputs)


class AutoModel:
    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *model_args, attn_implementation=None,
                        **kwargs):
        config = _read(pretrained_model_name_or_path, kwargs)
        torch.manual_seed(1)
        model = MODELS[config.model_type](*model_args, attn_implementation).half().train()
        if not hasattr(model, "config"):
            model.config = config
        return model
