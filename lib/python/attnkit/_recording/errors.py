"""What ends a recording, and what a user should know of it."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence


class DumpError(RuntimeError):
    """One line on what cannot be recorded. `status` is the exit status of dump-attention: 2 for
    wrong usage, 3 for an input, 5 for the output. `hint` is one line that may help, or None."""

    def __init__(self, message: object, status: int = 3, hint: Optional[str] = None) -> None:
        super().__init__(" ".join(str(message).split()))
        self.status = status
        self.hint = hint


def without_library(missing: ImportError) -> DumpError:
    """The error if this Python lacks a library; `missing` is its ImportError."""
    return DumpError(f"{missing}: recording needs PyTorch, NumPy and h5py", 2,
                     "run dump-attention with the Python that has them: PYTHON $(which dump-attention) …; "
                     "or sudo apt install python3-torch python3-numpy python3-h5py, and "
                     "/usr/bin/python3 $(which dump-attention) …")


class Unseen(DumpError):
    """Nothing was recorded, as the model's classes compute their attention by themselves."""


class DumpWarning(UserWarning):
    """Something that the dump lacks."""


class Notes:
    """What the layers of a recording lack: told once for all layers that share it."""

    def __init__(self) -> None:
        self._layers: Dict[str, List[str]] = {}  # by text

    def add(self, layer: str, text: str) -> None:
        layers = self._layers.setdefault(text, [])
        if layer not in layers:
            layers.append(layer)

    def lines(self) -> List[str]:
        """One line for each text."""
        return [f"{one_and_more(layers)}: {text}" for text, layers in self._layers.items()]


def one_and_more(layers: Sequence[str]) -> str:
    """Names of layers, in few words."""
    first, *others = layers
    return first + (f" and {len(others)} more layer{'s' * (len(others) > 1)}" if others else "")
