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
    lines += [".SH SEE ALSO", r"\fBattnkit\fR(7), \fBattn\-compute\fR(1), \fBexplain\-away\-stats\fR(1)"]
    return "\n".join(lines)
