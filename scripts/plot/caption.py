"""The text below a figure: the commands that made its data, ready to be run again."""

import shlex

from words import without_folders

MOST_LINES = 8

# Options that affect location and speed but not results, including their values.
_PLACES = {"-o": 1, "--output": 1, "--threads": 1, "--memory": 1, "--tmpdir": 1, "--force": 0,
           "--only": 0, "-q": 0, "--quiet": 0, "-v": 0, "--verbose": 0}


# Options whose value may be a separate word: figures loop over these.
_SPLIT = {"--alpha", "--epsilon", "--scheme", "--scale", "--energy", "--counts", "--variance", "--gamma",
          "--hybrid", "--iterations", "--seed"}


def _words(command):
    try:
        return shlex.split(command)
    except ValueError:  # not a command line, but history may contain it
        return command.split()


# Options whose value looks like an absolute path and is a name within a bundle.
_WITHIN = ("--each", "--map")


def _without_folders(words):
    """Words without the folders of absolute paths, which mean nothing elsewhere."""
    before = [""] + words[:-1]
    return [word if word.startswith(_WITHIN) or last in _WITHIN else without_folders(word)
            for last, word in zip(before, words)]


def _essential(command, read_later):
    """The words of a command, without its output unless a later command reads it, and without
    folders."""
    words, kept = iter(_words(command)), []
    for word in words:
        name, given, value = word.partition("=")
        if name not in _PLACES:
            # The value of an option becomes a word of its own, so that the caption can loop over
            # it.
            kept += ([] if name == "--json" else [name, value] if given and name in _SPLIT else [word])
            continue
        if not given and _PLACES[word]:
            value = next(words, "")
        kept += ["-o", value] if name in ("-o", "--output") and value in read_later else []
    return _without_folders(kept)


def _alike(one, other):
    """Whether the commands are equal except for at most one value of an option."""
    differ = [(a, b) for a, b in zip(one, other) if a != b]
    return (len(one) == len(other) and one[0] == other[0] and len(differ) <= 1 and
            not any(word.startswith("--") for pair in differ for word in pair))


def _joined(commands):
    """Commands that are similar to the first: a single one, or a shell loop over the value."""
    first = commands[0]
    places = [place for place in range(len(first)) if any(c[place] != first[place] for c in commands)]
    if not places:
        return [shlex.join(first)]
    if len(places) > 1:
        return [shlex.join(command) for command in commands]
    place, = places
    values = shlex.join(command[place] for command in commands)
    body = " ".join([*map(shlex.quote, first[:place]), '"$x"', *map(shlex.quote, first[place + 1:])])
    return [f"for x in {values}; do {body}; done"]


def caption_of(bundles):
    """The commands that made the bundles, one line per stage; commands of one stage that differ in
    one value become a loop."""
    stages = {}
    for commands in (bundle.commands() for bundle in bundles):
        words = [set(_words(command)) for command in commands]
        for place, command in enumerate(commands):
            later = set().union(*words[place + 1:])
            stages.setdefault(place - len(commands), []).append(_essential(command, later))
    lines = []
    for place in sorted(stages):
        rest = [words for at, words in enumerate(stages[place]) if words not in stages[place][:at]]
        while rest:
            alike = [words for words in rest if _alike(words, rest[0])]
            rest = [words for words in rest if words not in alike]
            lines += _joined(alike)
    if len(lines) > MOST_LINES:
        lines[MOST_LINES - 1:] = [f"# and {len(lines) - MOST_LINES + 1} more"]
    return lines
