"""What `observe` keeps of the calls of attention, and the tables that it makes of them."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

import numpy

from .._errors import error_of
from .._results import Arrays
from ._seen_file import write
from ._seen_text import summary_of

Row = Dict[str, Any]
Table = Dict[str, List[Any]]

_OF_HEAD = ("layer", "call", "batch", "head", "scheme")
_OF_KEY = ("key", "token", "queries", "col_sum", "col_sum_per_query")


class SeenCall(Arrays):
    """The statistics of one call of a layer's attention: arrays by name, as items and as attributes.

    SCHEME_col_sum (B, H, Lk) is the attention that each key receives, SCHEME_row_entropy (B, H, Lq) the
    entropy of each query's weights in nats, and queries_of_key (B, H, Lk) the number of queries that may
    attend to each key. largest_logit (B, H) is the largest logit that a softmax over the keys sees: it
    is scaled and capped, and has its bias. The leading axes are those of the model's queries. If only
    some heads were chosen, ``attributes["heads"]`` are their numbers.
    """

    _kind = "array"

    def __init__(self, layer: str, call: int, arrays: Dict[str, Any], rows: List[Row],
                 attributes: Dict[str, Any], made: Dict[str, Any], tokens: Optional[Sequence[Any]]) -> None:
        super().__init__(arrays)
        self.layer = layer
        """The name of the module in the model."""
        self.call = call
        """1 for the first call of the layer, and so on."""
        self.rows = rows
        """The rows of `Seen.table`: a dict for each scheme of each head."""
        self.attributes = attributes
        """How scores are made of queries and keys, as dump-attention writes it: attn_causal and so on."""
        self.made = made
        """What the statistics were made of, as the tools write it into attn_result: tool, from, with."""
        self.tokens = tokens
        """The names of the keys: a list for all sequences, or a list for each; None if they are unknown."""

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name} {array.shape}" for name, array in self._arrays.items())
        return f"<attnkit.torch.SeenCall {self.layer}, call {self.call}: {arrays}>"

    def token(self, place: Sequence[int], key: int) -> Optional[str]:
        """The name of a key, for a place (b, h) in the leading axes; None if it is unknown."""
        if self.tokens is None:
            return None
        if isinstance(self.tokens[0], str):
            return str(self.tokens[key])
        return str(self.tokens[place[0] if len(self.tokens) > 1 else 0][key])

    def _rows_of_keys(self, choose: Callable[[Any, Any], Any]) -> Iterator[Row]:
        """Rows of the keys that choose(sums, queries) names for each head and scheme. Keys with too few
        queries have NaN as their sum, which is below nothing and sorted behind all numbers."""
        places = list(numpy.ndindex(*self.queries_of_key.shape[:-1]))
        schemes = len({row["scheme"] for row in self.rows})
        for at, row in enumerate(self.rows):
            place = places[at // schemes]
            queries = self.queries_of_key[place]
            own = self._arrays[f"{row['scheme']}_col_sum"][place]
            sums = numpy.where(queries >= row["min_queries"], own, numpy.nan)
            for key in choose(sums, queries):
                of_key = (int(key), self.token(place, key), int(queries[key]), float(own[key]),
                          float(own[key] / queries[key]))
                yield {**{name: row[name] for name in _OF_HEAD}, **dict(zip(_OF_KEY, of_key))}


class Seen(Mapping[str, SeenCall]):
    """What `observe` has seen: the statistics of each call of attention.

    ``seen["encoder.layers.0.self_attn"]`` is the first call of a layer and ``seen["…self_attn@2"]`` the
    second, as dump-attention names them. The tables are dicts of columns: ``pandas.DataFrame(seen.table())``.
    """

    epsilon = 0.0
    """The column sum below which `ignored` and `summary` take a key as ignored: the first option epsilon."""
    top = 0
    """The number of keys and of heads that `least` and `summary` list: the option top."""

    def __init__(self, calls: Dict[str, SeenCall]) -> None:
        self._calls = calls
        self.attributes: Dict[str, str] = {}
        """model_class and, if the model knows one, model_name; there once the context has ended."""
        self.tokens: Any = None
        """The names of tokens for the calls to come: set it anew before the model reads another text."""

    def __getitem__(self, name: str) -> SeenCall:
        return self._calls[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def __repr__(self) -> str:
        return f"<attnkit.torch.Seen: {', '.join(self._calls) or 'nothing yet'}>"

    def __str__(self) -> str:
        return self.summary()

    @property
    def layers(self) -> List[str]:
        """The names of the layers, in the order of their first calls."""
        return list(dict.fromkeys(call.layer for call in self.values()))

    def table(self) -> Table:
        """The rows of explain-away-stats --csv, one for each call, head and scheme, by column.

        layer and call come first and largest_logit last; for the others, such as min_c, entropy,
        first_key_share and sink_share, see `help(attnkit.stats)`.
        """
        rows = [row for call in self.values() for row in call.rows]
        return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}

    def least(self, top: Optional[int] = None) -> Table:
        """The `top` keys with the least attention per query of each call, head and scheme, by column.

        Keys with fewer queries than min_queries of their head are left out.
        """
        count = self.top if top is None else top
        if count < 0:
            raise error_of(2, f"top is {count}, expected 0 or more")

        def choose(sums: Any, queries: Any) -> Any:
            with numpy.errstate(invalid="ignore", divide="ignore"):
                per_query = sums / queries
            order = numpy.argsort(per_query, kind="stable")[:count]
            return order[~numpy.isnan(per_query[order])]

        return self._keys(choose)

    def ignored(self, epsilon: Optional[float] = None) -> Table:
        """The keys whose column sum is below `epsilon`, of each call, head and scheme, by column.

        Keys with fewer queries than min_queries of their head are left out.
        """
        limit = self.epsilon if epsilon is None else epsilon
        return self._keys(lambda sums, _: numpy.flatnonzero(sums < limit))

    def _keys(self, choose: Callable[[Any, Any], Any]) -> Table:
        rows = [row for call in self.values() for row in call._rows_of_keys(choose)]
        return {name: [row[name] for row in rows] for name in (*_OF_HEAD, *_OF_KEY)}

    def summary(self) -> str:
        """Which tokens are ignored, by layer and head, and if none is, which get the least attention."""
        return summary_of(self)

    def save(self, path: Any, force: bool = False) -> None:
        """Writes the bundle that explain-away-stats --only writes for a dump of the same calls, with
        largest_logit and the names of tokens besides. It appears complete or not at all.

        Needs h5py. `force` replaces an existing file. Raises OutputError if the file cannot be written.
        """
        write(self, path, force)
