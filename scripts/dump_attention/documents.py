"""The manual page of dump-attention, from its parser."""

import re


def _roff(text):
    lines = (line.replace("\\", r"\e").replace("-", r"\-") for line in text.splitlines())
    return "\n".join(rf"\&{line}" if line[:1] in (".", "'") else line for line in lines)


def _bold(text):
    return rf"\fB{_roff(text)}\fR"


def man_page(tool, parser, about, examples, statuses, version):
    """The page in roff."""
    summary, *rest = about.split("\n\n")
    summary = summary[0].lower() + summary[1:].rstrip(".")
    lines = [r".\" -*- coding: UTF-8 -*-",
             f'.TH "{_roff(tool.upper())}" 1 "" "attnkit {version}" "attnkit"', ".ad l", ".nr HY 0",
             ".nh", ".SH NAME", f"{_roff(tool)} \\- {_roff(summary)}", ".SH SYNOPSIS"]
    for usage in parser.usage.splitlines():
        lines += [_bold(usage.strip()), ".br"]
    lines += [".SH DESCRIPTION"]
    for paragraph in rest:
        lines += [".PP", _roff(paragraph)]
    for group in parser._action_groups:  # pylint: disable=protected-access
        actions = [one for one in group._group_actions if one.option_strings]
        if not actions:
            continue
        lines += [f".SH {_roff(group.title.upper())}"]
        for action in actions:
            names = ", ".join(map(_bold, action.option_strings))
            value = rf" \fI{_roff(action.metavar)}\fR" if action.metavar else ""
            text = re.sub(r"\s+", " ", action.help)
            lines += [".TP", names + value, _roff(text[0].upper() + text[1:] + ".")]
    lines += [".SH EXAMPLES"]
    for line, text in examples:
        lines += [".PP", _roff(text), ".PP", ".RS 4", ".EX", _roff(line), ".EE", ".RE"]
    lines += [".SH EXIT STATUS"]
    for number, text in statuses:
        lines += [".TP", _bold(str(number)), _roff(text)]
    lines += [".SH SEE ALSO",
              r"\fBattnkit\fR(7), \fBattn\-compute\fR(1), \fBexplain\-away\-stats\fR(1)"]
    return "\n".join(lines)


# --- Completions: options, then files. ------------------------------------------------------------


def _options(parser):
    for action in parser._actions:  # pylint: disable=protected-access
        yield action.option_strings, action.metavar, re.sub(r"\s+", " ", action.help)


def completion(shell, tool, parser):
    """The completion script for bash, zsh or fish; None for another shell."""
    writer = {"bash": _bash, "zsh": _zsh, "fish": _fish}.get(shell)
    return writer and writer(tool, list(_options(parser)))


def _bash(tool, options):
    words = " ".join(names[-1] for names, *_ in options)
    function = "_" + tool.replace("-", "_")
    return f"""\
# Completes the options of {tool} in bash; printed by {tool} --completion=bash.

{function}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}}
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W '{words}' -- "$word")
    return
  fi
  mapfile -t COMPREPLY < <(compgen -f -- "$word")
  compopt -o filenames 2>/dev/null
}}

complete -F {function} {tool}"""


def _zsh(tool, options):
    def described(text):
        text = text.replace("\\", r"\\").replace("'", "’").replace(":", r"\:")
        return text.replace("[", r"\[").replace("]", r"\]")

    def spec(names, value, text):
        equals = "=" if value and names[-1].startswith("--") else ""
        file = f":{described(value)}:_files" if value else ""
        return f"'{names[-1]}{equals}[{described(text)}]{file}'"

    specs = " \\\n    ".join(spec(*option) for option in options)
    return f"""\
#compdef {tool}
# Completes the options of {tool} in zsh; printed by {tool} --completion=zsh.

_{tool}() {{
  _arguments -s \\
    {specs} \\
    '*:file:_files'
}}

if [[ $funcstack[1] == _{tool} ]]; then
  _{tool} "$@"
else
  compdef _{tool} {tool}
fi"""


def _fish(tool, options):
    lines = [f"# Completes the options of {tool} in fish; printed by {tool} --completion=fish.", ""]
    for names, value, text in options:
        short = "".join(f" -s {name[1]}" for name in names if len(name) == 2)
        long = "".join(f" -l {name[2:]}" for name in names if len(name) > 2)
        shown = text.replace("\\", "\\\\").replace("'", "\\'")
        lines.append(f"complete -c {tool}{short}{long}{' -r -F' if value else ''} -d '{shown}'")
    return "\n".join(lines)
