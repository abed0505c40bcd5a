"""What a notebook shows of an answer: the table of the command line and a picture."""

from html import escape
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from . import _words as words
from ._figures import Point, bars, points
from ._words import shown


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>{}</tr>".format("".join("<{0}>{1}</{0}>".format(tag, escape(cell)) for cell in cells))

    return '<div style="overflow-x:auto"><table style="white-space:nowrap"><thead>{}</thead><tbody>{}</tbody></table></div>'.format(
        line(head, "th"), "".join(line(row, "td") for row in rows))


def _facts(facts: Mapping[str, str]) -> str:
    return _table(("", ""), [(name, text) for name, text in facts.items()])


def _hosts(of: Mapping[str, Any]) -> str:
    return "{} x {}".format(of["count"], of["machine"])


def _plans(answer: Any) -> str:
    rows = [(str(rank), _hosts(plan["cluster"]), plan["plan"], words.seconds(plan["step_time_s"]),
             words.number(plan["tokens_per_s"]), words.percent(plan["mfu"]), words.size(plan["peak_memory_bytes"]),
             shown(plan["usd_per_hour"], words.usd), shown(plan["usd_per_million_tokens"], words.small_usd),
             " ".join(plan["frameworks"]) or "meshwright", "pareto" if plan["pareto"] else "")
            for rank, plan in enumerate(answer["plans"], 1)]
    text = _table(("", "cluster", "plan", "step", "tokens/s", "MFU", "memory", "$/h", "$/M tokens", "runs in", ""), rows)
    priced = [(rank, plan) for rank, plan in enumerate(answer["plans"], 1) if plan["usd_per_million_tokens"] is not None]
    if len(priced) > 1:
        text += points("Time against money: the first plan is filled", "step, s", "$/M tokens",
                       [Point(plan["step_time_s"], plan["usd_per_million_tokens"], "{}: {}".format(rank, plan["plan"]),
                              rank == 1) for rank, plan in priced])
    return text


def _plan(plan: Any) -> str:
    return _facts({"plan": plan["plan"], "cluster": _hosts(plan["cluster"]), "step": words.seconds(plan["step_time_s"]),
                   "tokens/s": words.number(plan["tokens_per_s"]), "MFU": words.percent(plan["mfu"]),
                   "memory": words.size(plan["peak_memory_bytes"]), "$/h": shown(plan["usd_per_hour"], words.usd),
                   "runs in": ", ".join(plan["frameworks"]) or "meshwright"})


def _recorded(answer: Any) -> str:
    """A recorded step of a script in the place of a job."""
    facts = {"script": answer["script"], "cluster": _hosts(answer), "step": words.seconds(answer["step_time_s"]),
             "tokens/s": shown(answer["tokens_per_s"], words.number), "MFU": words.percent(answer["mfu"]),
             "memory": "{} of {}{}".format(words.size(answer["peak_memory_bytes"]), words.size(answer["memory_limit_bytes"]),
                                           "" if answer["fits"] else ": does not fit"),
             "$/h": shown(answer["usd_per_hour"], words.usd)}
    parts = {key[:-len("_s")].replace("_", " "): answer[key] for key in (
        "compute_s", "exposed_communication_s", "exposed_copies_s", "waiting_s", "idle_s")}
    return _facts(facts) + bars("Parts of {} on a rank".format(words.seconds(answer["step_time_s"])), {"step": parts})


def _prediction(answer: Any) -> str:
    if "recorded_on" in answer:
        return _recorded(answer)
    facts = {"cluster": _hosts(answer), "step": words.seconds(answer["step_time_s"])}
    if answer["step_time_interval_s"]:
        facts["eight in ten"] = " to ".join(words.seconds(end) for end in answer["step_time_interval_s"])
    facts.update({"tokens/s": words.number(answer["tokens_per_s"]), "MFU": words.percent(answer["mfu"]),
                  "memory": "{} of {}{}".format(words.size(answer["peak_memory_bytes"]),
                                                words.size(answer["memory_limit_bytes"]),
                                                "" if answer["fits"] else ": does not fit"),
                  "$/h": shown(answer["usd_per_hour"], words.usd),
                  "$/M tokens": shown(answer["usd_per_million_tokens"], words.small_usd)})
    if answer["whole_run"]:
        facts["whole run"] = "{}, {}".format(words.duration(answer["whole_run"]["time_s"]),
                                             shown(answer["whole_run"]["usd"], words.usd))
    times = {"stage {}".format(stage["stage"]): {
        "compute": stage["compute_s"], "launch": stage["launch_s"],
        **{"exposed: " + group: time for group, time in stage["exposed_s"].items()},
        "bubble": stage["bubble_s"], "idle at the ends": stage["idle_s"]} for stage in answer["stages"]}
    memory = {"stage {}".format(stage["stage"]): {
        key[:-len("_bytes")]: size for key, size in stage.items() if key.endswith("_bytes") and key != "peak_bytes"}
        for stage in answer["memory"]}
    return (_facts(facts) + bars("Parts of {} on one rank of each stage".format(words.seconds(answer["step_time_s"])), times)
            + bars("Memory of a GPU of each stage at its peak", memory))


def _rungs(ladder: Any) -> str:
    rows = []
    for place, rung in enumerate(ladder["rungs"]):
        if "plan" not in rung:
            rows.append((_hosts(rung), str(rung["gpus"]), rung["reason"]) + ("",) * 8)
            continue
        rows.append((_hosts(rung), str(rung["gpus"]), rung["plan"], words.seconds(rung["step_time_s"]),
                     words.number(rung["tokens_per_s"]), words.percent(rung["efficiency"]),
                     words.size(rung["peak_memory_bytes"]), shown(rung["total_time_s"], words.duration),
                     shown(rung["total_usd"], words.usd), " ".join(rung["frameworks"]) or "meshwright",
                     "← stop here" if place == ladder["stop"] else ""))
    return _table(("cluster", "GPUs", "plan", "step", "tokens/s", "efficiency", "memory", "time", "$", "runs in", ""),
                  rows) + "<p>{}</p>".format(escape(ladder["reason"]))


def _money(ladders: List[Any]) -> str:
    """Hours against dollars of all rungs, where the whole job has both."""
    found = [Point(rung["total_time_s"] / 3600, rung["total_usd"], "{}: {}".format(_hosts(rung), rung["plan"]),
                   place == ladder["stop"])
             for ladder in ladders for place, rung in enumerate(ladder["rungs"])
             if rung.get("total_usd") is not None and rung.get("total_time_s") is not None]
    return points("The whole job: where to stop is filled", "hours", "$", found) if len(found) > 1 else ""


def _ladder(ladder: Any) -> str:
    return _rungs(ladder) + _money([ladder])


def _advice(answer: Any) -> str:
    text = "".join("<p><b>{}</b></p>{}".format(escape(ladder["machine"]), _rungs(ladder)) for ladder in answer["ladders"])
    best = answer["best"]
    if best:
        text = "<p><b>Rent {}</b>: {}</p>".format(escape(_hosts(best)), escape(best["reason"])) + text
    elif answer.shortfall:
        text = "<p>{}</p>".format(escape(answer["shortfall"])) + text
    return text + _money(answer["ladders"])


def _scaling(answer: Any) -> str:
    rows = [(_hosts(point), str(point["gpus"]), words.seconds(point["step_time_s"]), words.number(point["tokens_per_s"]),
             words.percent(point["efficiency"]), shown(point["usd_per_million_tokens"], words.small_usd),
             " ".join(point["frameworks"]) or "meshwright") for point in answer["points"]]
    text = _table(("cluster", "GPUs", "step", "tokens/s", "efficiency", "$/M tokens", "runs in"), rows)
    if len(rows) > 1:
        text += points("Throughput over GPUs", "GPUs", "tokens/s",
                       [Point(point["gpus"], point["tokens_per_s"], _hosts(point), True) for point in answer["points"]])
    return text


def _explanation(answer: Any) -> str:
    def change(ps: int) -> str:
        return ("-" if ps < 0 else "+") + words.seconds(abs(ps) / 1e12)

    rows = [(each["cause"], words.seconds(each["from_ps"] / 1e12), words.seconds(each["to_ps"] / 1e12),
             change(each["change_ps"])) for each in answer["changes"]]
    step = ("step", *(words.seconds(answer[side]["step_time_ps"] / 1e12) for side in ("from", "to")),
            change(answer["change_ps"]))
    return _table(("", "from " + answer["from"]["name"], "to " + answer["to"]["name"], "change"), [*rows, step])


def _sensitivity(answer: Any) -> str:
    ranked_by = answer["answer"]
    show = {"usd": words.usd, "time_s": words.duration, "tokens": words.number}[ranked_by]
    rows = [(each["input"], *(text for end in (each["low"], each["high"])
                              for text in (end["value"], shown(end[ranked_by], show)))) for each in answer["inputs"]]
    return _table(("input", "low", "answer at low", "high", "answer at high"), rows)


_drawn: Dict[str, Callable[[Any], str]] = {
    "Plans": _plans, "Plan": _plan, "Prediction": _prediction, "Advice": _advice, "Ladder": _ladder, "Scaling": _scaling,
    "Explanation": _explanation, "Sensitivity": _sensitivity}


def html_of(answer: Any) -> Optional[str]:
    """None: a notebook shows the dictionary."""
    draw = _drawn.get(type(answer).__name__)
    return draw(answer) if draw else None
