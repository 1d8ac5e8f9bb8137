"""Statistics of a model's attention, computed while the model runs."""

from __future__ import annotations

import contextlib
import json
import warnings
from typing import Any, Dict, Iterator, List, Sequence, Union

from .._errors import Error, Warning, error_of
from .._functions import run_tool
from .._options import command_line
from .._recording.call import Call
from .._recording.errors import DumpError
from .._recording.logits import largest_logits
from .._recording.masks import Masks
from .._recording.operands import as_array, attributes_of, datasets_of
from .._recording.tokens import name_all, strings_of
from .._recording.watcher import Watcher, class_name
from .._results import columns_of
from ._seen import Seen, SeenCall

_TOOL = "explain-away-stats"
# The options of attnkit.stats that are not about scores, which the model's calls define, or about files.
_OPTIONS = ("scheme", "epsilon", "min_queries", "top", "top_shares", "concentration", "hybrid", "alpha",
            "precision", "threads", "memory")


@contextlib.contextmanager
def observe(
    model: Any = None,
    *,
    scheme: Any = None,
    tokens: Any = None,
    tokenizer: Any = None,
    layers: Any = None,
    heads: Any = None,
    calls: Any = None,
    function: Union[str, Sequence[str]] = (),
    **options: Any,
) -> Iterator[Seen]:
    """A context in which the attention of `model` (None: of every model) is measured as it runs.

    >>> with attnkit.torch.observe(model, tokenizer=tokenizer) as seen, torch.no_grad():
    ...     model(ids)
    >>> print(seen.summary())
    >>> pandas.DataFrame(seen.table())
    >>> seen["encoder.layers.0.self_attn"].unas_col_sum

    After each call of attention, `attnkit.stats` computes its column sums, entropies and shares from the
    queries and keys of the call. These are then dropped: no weights of Lq x Lk numbers are made, and the
    model's outputs stay the same to the last bit. Attention is found as the command dump-attention finds
    it, in nn.MultiheadAttention, scaled_dot_product_attention, models of Hugging Face, and functions
    that are named. The statistics are those of explain-away-stats on the dump of the same calls.

    scheme     the normalisations to compare, by default "unas" (softmax) and "dnas"
    tokens     the names of the tokens: a list for all sequences, a list for each, or a dict of such by
               the names of layers or of calls; `seen.tokens` may be set anew before each call of the model
    tokenizer  what turns token ids into names, where the model reads ids: an object with
               convert_ids_to_tokens, id_to_token or decode, a list of all words, a dict from words to
               ids, or a function of a list of ids
    layers     which layers: "0,3-5" or "decoder.*", or a list of numbers and patterns
    heads      which query heads: "0,2-3", or a list of numbers
    calls      which calls of each layer, counted from 1
    function   the name, or a list of names, of further functions that compute attention from query, key
               and value, such as "package.module:function" or "package.module:Class.method"
    options    options of `attnkit.stats`: epsilon, min_queries, top, top_shares, concentration, hybrid,
               alpha, precision, threads and memory

    Raises UsageError for wrong options, and InputError if there was no attention, or a call of it cannot
    be read. Warns of layers whose attention ran unseen, of dropout, which is left out, and of a model
    that does more than the recorded numbers say.
    """
    names = [function] if isinstance(function, str) else list(function)
    try:
        observer = _Observer(model, layers, heads, calls, tokenizer, {"scheme": scheme, **options})
        observer.seen.tokens = tokens
        with observer.watching(names):
            yield observer.seen
        observer.conclude()
    except DumpError as error:
        raise error_of(error.status, str(error), error.hint or "") from None
    for line in observer.notes.lines():
        warnings.warn(line, Warning, stacklevel=3)  # where the context ends


class _Observer(Watcher):
    """A watcher that computes the statistics of each call, and keeps nothing else of it."""

    def __init__(self, model: Any, layers: Any, heads: Any, calls: Any, tokenizer: Any,
                 options: Dict[str, Any]) -> None:
        super().__init__(model, layers, heads, calls)
        for name in sorted(options.keys() - set(_OPTIONS)):
            raise error_of(2, f"observe() has no argument {name}", f"options: {', '.join(_OPTIONS)}")
        self._found: Dict[str, SeenCall] = {}
        self.seen = Seen(self._found)
        self._tokenizer = tokenizer
        self._options = {name: value for name, value in options.items() if value is not None}

    def take(self, layer: str, name: str, call: Call, module: Any) -> None:
        if call.dropout > 0:
            self.notes.add(layer, "dropout is on; the statistics are those of attention without it")
        chosen, heads = self.heads_among(call, layer)
        call.inputs = {}  # what was there refers to the call, which would live on
        if len(chosen) < heads:
            call.keep_heads(chosen)
        masks = Masks(call)
        attributes = attributes_of(call, masks)
        datasets = {key: as_array(tensor) for key, tensor in datasets_of(call, masks).items() if key != "v"}
        found = self._statistics(layer, name, datasets, attributes)
        params = json.loads(found["report"]())["params"]
        self.seen.epsilon, self.seen.top = params["epsilon"][0], params["top"]
        made = {"tool": _TOOL, "from": {key: key for key in datasets},
                "with": {**attributes, "attn_source": "qk", "precision": params["precision"]}}
        arrays = dict(found["results"])
        logits = largest_logits(call, masks)
        if logits is not None:
            arrays["largest_logit"] = logits.numpy()
        error = self.error_of(layer, call, masks)
        if error is not None:
            attributes["model_error"] = error
        if module is not None:
            attributes["module_class"] = class_name(module)
        if len(chosen) < heads:
            attributes["heads"] = chosen
        rows = _rows(columns_of(found["data"]), layer, self._seen[layer], chosen, arrays)
        self._found[name] = SeenCall(layer, self._seen[layer], arrays, rows, attributes, made,
                                     self._tokens_of(layer, name, call))

    def _statistics(self, layer: str, name: str, datasets: Dict[str, Any], attributes: Dict[str, Any]) -> Any:
        """What explain-away-stats finds."""
        recorded = {key.replace("attn_", ""): value for key, value in attributes.items()}
        words, arrays = command_line("observe", _TOOL, "", {**datasets, **recorded, **self._options})
        try:
            found = run_tool(_TOOL, [*words, "-o", "results", "--only", "--csv"], arrays, {}, None)
        except Error as error:
            raise error_of(error.exit_status, f"{name}: {error}", error.hint) from None
        for line in found["warnings"]:
            self.notes.add(layer, line)
        if found["status"] == 1:
            self.notes.add(layer, found["summary"] or "the status of explain-away-stats is 1")
        return found

    def _tokens_of(self, layer: str, name: str, call: Call) -> Any:
        """The names of the keys of a call; None if they are unknown."""
        keys, batch = call.k.shape[-2], call.k.shape[0] if call.k.dim() > 2 else 1
        given = self.seen.tokens
        if isinstance(given, dict):
            given = given.get(name, given.get(layer))
        if given is not None:
            return list(given) if name_all(given, keys, batch) else None
        ids = None
        if self._tokenizer is not None:
            ids = self._sequences.of_keys(keys, batch, call.of_itself, layer)
        return None if ids is None else strings_of(self._tokenizer, ids)

    def conclude(self) -> None:
        super().conclude()
        self.seen.attributes["model_class"] = self.model_class
        if self.model_name:
            self.seen.attributes["model_name"] = self.model_name
        if self.seen.tokens is not None and all(call.tokens is None for call in self._found.values()):
            name, call = next(iter(self._found.items()))
            keys = call.queries_of_key.shape[-1]
            self.notes.add(name, f"tokens names no layer's keys; here there are {keys}")


def _rows(table: Dict[str, List[Any]], layer: str, count: int, heads: List[int],
          arrays: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The rows of a table of the tool, with the names of the layer and the numbers of its heads."""
    del table["file"], table["group"]
    logits = arrays["largest_logit"].reshape(-1) if "largest_logit" in arrays else None
    schemes = len(set(table["scheme"]))
    rows = []
    for at, values in enumerate(zip(*table.values())):
        row: Dict[str, Any] = {"layer": layer, "call": count, **dict(zip(table, values))}
        if row["head"] is not None:
            row["head"] = heads[row["head"]]
        row["largest_logit"] = None if logits is None else float(logits[at // schemes])
        rows.append(row)
    return rows
