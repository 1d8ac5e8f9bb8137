"""Token ids that a model reads, and their strings."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from .errors import DumpError

# Integers that models take besides token ids.
_OTHER = ("position", "token_type", "segment", "mask", "length", "label", "cache", "past", "size")
_CROSS = ("cross", "encoder_attn", "encdec", "multihead_attn", "src_attn", "encoder_decoder")


class Sequences:
    """The token ids of the running call of a model. An encoder and a decoder have different ones;
    with a cache, a decoder reads its sequence over several calls."""

    def __init__(self) -> None:
        self._given: List[Any] = []  # integer arguments of the call of the model
        # The sequences of the call so far, in the order in which embeddings read them.
        self._ids: List[Tuple[Any, Any]] = []
        self._before: Dict[int, Any] = {}  # by embedding: ids of this and earlier calls, joined

    def begin(self, arguments: Dict[str, Any]) -> None:
        """The model is called with these arguments by name."""
        self._ids = []
        self._given = [value for name, value in arguments.items()
                       if _are_ids(value) and not any(word in name for word in _OTHER)]

    def embedded(self, module: Any, ids: Any) -> None:
        """An embedding reads `ids`. Its vectors may be those of words or of positions."""
        if not _are_ids(ids):
            return
        ids = ids.detach().cpu().long().reshape(-1, ids.shape[-1])
        if self._given:
            if not any(_same(ids, given) for given in self._given):
                return
        elif self._ids:
            return  # positions and segments follow the words
        if any(torch.equal(ids, earlier) for _, earlier in self._ids):
            return
        joined = self._before.get(id(module))
        joined = ids if joined is None or len(joined) != len(ids) else torch.cat([joined, ids], -1)
        self._before[id(module)] = joined
        self._ids.append((joined, ids))

    def of_keys(self, keys: int, batch: int, of_itself: Optional[bool], layer: str) -> Any:
        """The ids (B, Lk) of the keys of an attention; None if they are not known."""
        found = []
        for joined, ids in self._ids:
            # The last: (L, B), as models of PyTorch without batch_first read them.
            found += [some for some in (ids, joined, ids.T)
                      if some.shape[-1] == keys and len(some) in (1, batch)][:1]
        if not found:
            return None
        layer = layer.lower()
        cross = of_itself is False or (of_itself is None and any(word in layer for word in _CROSS))
        # The encoder's come first; some models embed both before they run either.
        return found[0 if cross or ("encoder" in layer and "decoder" not in layer) else -1]


def _are_ids(value: Any) -> bool:
    return (isinstance(value, torch.Tensor) and value.dim() in (1, 2) and value.numel() > 0 and
            value.dtype in (torch.int64, torch.int32))


def _same(ids: Any, given: Any) -> bool:
    # Models of PyTorch may take (L, B).
    given = given.detach().cpu().long()
    return any(ids.numel() == some.numel() and torch.equal(ids.reshape(-1), some.reshape(-1))
               for some in ([given, given.T] if given.dim() == 2 else [given]))


def strings_of(tokenizer: Any, ids: Any) -> List[List[str]]:
    """Nested lists of the strings of ids (B, L)."""
    name = _naming(tokenizer)
    result = []
    for row in ids.tolist():
        words = [name(one) for one in row]
        if any(not isinstance(word, str) for word in words):
            raise DumpError("the tokenizer has no string for an id")
        # HDF5 ends a string at the first zero; lone surrogates are not UTF-8.
        result.append([word.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
                       for word in words])
    return result


def name_all(tokens: Any, keys: int, batch: int) -> bool:
    """Whether strings, a list for all sequences or a list for each, name all keys."""
    if any(not isinstance(word, str) for word in tokens):
        return len(tokens) in (1, batch) and all(len(row) == keys for row in tokens)
    return len(tokens) == keys


def _naming(tokenizer: Any) -> Callable[[int], Any]:
    """A function from one id to its string."""
    for method in ("convert_ids_to_tokens", "id_to_token", "id_to_piece", "IdToPiece"):
        call = getattr(tokenizer, method, None)
        if callable(call):
            of: Callable[[Any], Any] = call
            return lambda one: of([one])[0] if method == "convert_ids_to_tokens" else of(one)
    if callable(getattr(tokenizer, "decode", None)):
        return lambda one: tokenizer.decode([one])
    if isinstance(tokenizer, dict):
        if all(isinstance(key, str) for key in tokenizer):
            tokenizer = {number: word for word, number in tokenizer.items()}
        return tokenizer.get
    if isinstance(tokenizer, (list, tuple)):
        return lambda one: tokenizer[one] if 0 <= one < len(tokenizer) else None
    if callable(tokenizer):
        def call_with_list(one: int) -> Any:
            word = tokenizer([one])
            return word[0] if isinstance(word, (list, tuple)) and len(word) == 1 else word
        return call_with_list
    raise DumpError(f"the tokenizer is a {type(tokenizer).__name__}, which names no tokens", 2)


def read_lines(path: str) -> List[str]:
    """The lines of a file, such as one token each."""
    try:
        with open(path, encoding="utf-8") as file:
            return [line.rstrip("\n") for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise DumpError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def read_vocabulary(path: str) -> Any:
    """A list or dictionary of the words in vocab.txt (one a line), vocab.json or tokenizer.json."""
    lines = read_lines(path)
    if not path.endswith(".json"):
        return lines
    try:
        content = json.loads("\n".join(lines))
        if isinstance(content, dict) and isinstance(content.get("model"), dict):
            words = content["model"]["vocab"]
            if isinstance(words, list):
                words = {word: number for number, (word, *_) in enumerate(words)}
            return {**words, **{one["content"]: one["id"] for one in content.get("added_tokens", ())}}
        if isinstance(content, (dict, list)):
            return content
    except (ValueError, KeyError, TypeError) as error:
        raise DumpError(f"{path}: not a vocabulary: {error}") from error
    raise DumpError(f"{path}: expected a list of words, or an object from words to ids")


def find_tokenizer(text: Optional[str], names: Dict[str, Any]) -> Any:
    """What --tokenizer means: a vocabulary file, a variable of the script (`names`), MODULE:NAME.
    Without --tokenizer, the one variable of the script that is a tokenizer, or None."""
    if text is None:
        found = {id(value): value for value in names.values()
                 if not isinstance(value, type) and hasattr(value, "convert_ids_to_tokens")}
        return next(iter(found.values())) if len(found) == 1 else None
    if os.path.isfile(text):
        return read_vocabulary(text)
    module, _, name = text.rpartition(":")
    try:
        values = vars(importlib.import_module(module)) if module else names
        first, *rest = name.split(".")
        value = values[first]
        for part in rest:
            value = getattr(value, part)
        return value
    except (ImportError, AttributeError, KeyError, ValueError) as error:
        raise DumpError(f"--tokenizer {text}: there is no such file, and no such variable of the "
                        f"script ({type(error).__name__}: {error})") from error
