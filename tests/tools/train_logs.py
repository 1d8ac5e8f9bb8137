"""Made-up logs of attn-train."""

import json


def write_log(path, recipe, losses, attention=None, steps=None, every=10):
    """Writes a log: `losses` by line, the lines `every` steps apart, each an evaluation as well.
    attention(line) lists the groups. Unfinished if `steps` is larger than the last step."""
    lines = [{"schema": "attnkit-log/1", "version": "0.1.0", "recipe": {"seed": 1} | recipe, "parameters": 10,
              "steps": steps or every * len(losses), "tokens_per_epoch": 100}]
    for place, loss in enumerate(losses):
        line = {"step": every * (place + 1), "epoch": (place + 1) / 10, "loss": loss, "rate": 0.5,
                "valid": {"loss": None if loss is None else loss + 1}}
        if attention:
            line["attention"] = attention(place)
        lines.append(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path.name
