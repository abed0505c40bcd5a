"""A function for each command that answers; its options are named arguments."""
# Written by tools/python/generate from what the program says; not by hand.
from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Union

from ._answers import (
    Advice, Compilation, Evaluation, Explanation, Exported, Fit, Generation, Imported, Plans, Prediction, Scaling,
    Sensitivity, Validation)
from ._progress import OnProgress
from ._running import Date, Job, Number, Path, run

__all__ = [
    "plan", "simulate", "advise", "scale", "sensitivity", "explain", "validate", "compile", "fit", "import_job",
    "export", "evaluate", "generate"]


def plan(job: Optional[Job] = None, *, measure_afresh: bool = False, prove: bool = False, set: Optional[Mapping[str,
         Any]] = None, for_: Optional[str] = None, model: Optional[str] = None, tokens: Optional[Number] = None, task:
         Optional[str] = None, batch: Optional[Number] = None, length: Optional[Number] = None, on: Optional[str] =
         None, by: Optional[Date] = None, budget: Optional[Number] = None, profile: Optional[Path] = None, prices:
         Optional[Path] = None, write: Optional[Path] = None, write_partition: Optional[Path] = None, report:
         Optional[Path] = None, top: Optional[Number] = None, count: Optional[Number] = None, memory_margin:
         Optional[Number] = None, on_progress: OnProgress = None) -> Plans:
    """Search for the best plan of a job on its clusters.

    Searches over all that the job leaves open with "auto" and lists, ranks the plans, and says why others were
    rejected. `by` and `budget` ask for the cheapest plan that is done in time, and for what the money buys. Under the
    list stands how much better any other plan could be at most.

    Arguments:
        job: a dictionary, or the path of a job file; None: model= and other words say it.
        measure_afresh: measure this computer, although a quick profile of today is kept.
        prove: go on until no other plan can be better by more than 2 %; Ctrl-C prints the best so far.
        set: override a key of the job by its dotted path.
        for_: a framework whose settings can express the plan: `list frameworks` names them: megatron-lm,
            megatron-bridge, torchtitan, deepspeed, accelerate, sagemaker, hyperpod.
        model: instead of a job file, or in place of its model: a name of the hub or of `list models`, llama:3B,
            llama:largest (with by or budget), or the path of a config.json.
        tokens: tokens of the whole job, such as 60B.
        task: what a job without a file does: pretrain, finetune, lora or qlora (pretrain).
        batch: sequences of a step (without it and without a job that says it, a usual batch).
        length: of a sequence, such as 4096 or 8k (without it and without a job that says it, the model's).
        on: a machine of `list machines`, a group (aws, p5, dgx), or GPUs: 8xH100, A100-80GB x 16; of a recorded step a
            machine (its own).
        by: when the whole job is to be done: a date, or a duration such as 30d; the cheapest such plan is the best
            where the job does not say what to minimize.
        budget: what the whole job may cost; where it does not say how long it is, the best plan trains on the most
            tokens.
        profile: the profile to use for the machine that it names, or for `local`, instead of the known one.
        prices: a price list whose rows go before those that are known (docs/prices.md).
        write: write the job with its plan, and every "auto" replaced; rehearse: the recorded step.
        write_partition: write the stage of every module, for `partition` or partition_file.
        report: write a self-contained HTML page.
        top: how many plans to show (10).
        count: hosts (of a recorded step, as few as have a GPU for each rank).
        memory_margin: share of a GPU's memory that plans leave free (0.03: allocators cut it into pieces, and predicted
            peaks are not exact).
        on_progress: called with a Progress while plans are searched; False: shows nothing.

    Returns Plans. Numbers are in SI units, and the unit is in the key: `step_time_s` is in seconds, `peak_memory_bytes`
    in bytes, `usd_per_hour` in US dollars; shares are from 0 to 1.
    Raises InputError for what is refused, NoPlanFits where nothing fits, Interrupted at Ctrl-C, with what was found
    until then.
    """
    options = {"measure-afresh": measure_afresh, "prove": prove, "set": set, "for": for_, "model": model, "tokens":
               tokens, "task": task, "batch": batch, "length": length, "on": on, "by": by, "budget": budget, "profile":
               profile, "prices": prices, "write": write, "write-partition": write_partition, "report": report, "top":
               top, "count": count, "memory-margin": memory_margin}
    return run("plan", [job], options, on_progress, Plans)


def simulate(job: Optional[Job] = None, *, measure_afresh: bool = False, set: Optional[Mapping[str, Any]] = None,
             trace_format: Optional[str] = None, model: Optional[str] = None, tokens: Optional[Number] = None, task:
             Optional[str] = None, batch: Optional[Number] = None, length: Optional[Number] = None, on: Optional[str] =
             None, profile: Optional[Path] = None, prices: Optional[Path] = None, trace: Optional[Path] = None,
             programs: Optional[Path] = None, write: Optional[Path] = None, report: Optional[Path] = None, timeline:
             Optional[Path] = None, steps: Optional[Number] = None, count: Optional[Number] = None, on_progress:
             OnProgress = None) -> Prediction:
    """Predict a training step: time, memory, cost.

    Predicts the time of a step, memory stage by stage, and cost. Where the job says that hosts fail, it predicts how
    long the whole run takes and what it costs. It plans first where the job says "auto".

    Arguments:
        job: a dictionary, or the path of a job file; None: model= and other words say it.
        measure_afresh: measure this computer, although a quick profile of today is kept.
        set: override a key of the job by its dotted path.
        trace_format: what trace writes: chrome (one file; without this option), or chakra (MLCommons Chakra execution
            traces: FILE.RANK.et for every rank).
        model: instead of a job file, or in place of its model: a name of the hub or of `list models`, llama:3B,
            llama:largest (with by or budget), or the path of a config.json.
        tokens: tokens of the whole job, such as 60B.
        task: what a job without a file does: pretrain, finetune, lora or qlora (pretrain).
        batch: sequences of a step (without it and without a job that says it, a usual batch).
        length: of a sequence, such as 4096 or 8k (without it and without a job that says it, the model's).
        on: a machine of `list machines`, a group (aws, p5, dgx), or GPUs: 8xH100, A100-80GB x 16; of a recorded step a
            machine (its own).
        profile: the profile to use for the machine that it names, or for `local`, instead of the known one.
        prices: a price list whose rows go before those that are known (docs/prices.md).
        trace: write the timeline as a Chrome trace (Perfetto opens it), or as trace_format says.
        programs: predict these Programs instead of those that the job compiles to: what `compile dump` wrote, perhaps
            changed since.
        write: write the job with its plan, and every "auto" replaced; rehearse: the recorded step.
        report: write a self-contained HTML page.
        timeline: write what the page's timeline draws, as JSON.
        steps: optimizer steps, instead of training.steps; evaluate: batches of training.global_batch sequences (all).
        count: hosts (of a recorded step, as few as have a GPU for each rank).
        on_progress: called with a Progress while plans are searched; False: shows nothing.

    Returns Prediction. Numbers are in SI units, and the unit is in the key: `step_time_s` is in seconds,
    `peak_memory_bytes` in bytes, `usd_per_hour` in US dollars; shares are from 0 to 1.
    Raises InputError for what is refused, NoPlanFits where nothing fits, Interrupted at Ctrl-C, with what was found
    until then.
    """
    options = {"measure-afresh": measure_afresh, "set": set, "trace-format": trace_format, "model": model, "tokens":
               tokens, "task": task, "batch": batch, "length": length, "on": on, "profile": profile, "prices": prices,
               "trace": trace, "programs": programs, "write": write, "report": report, "timeline": timeline, "steps":
               steps, "count": count}
    return run("simulate", [job], options, on_progress, Prediction)


def advise(job: Optional[Job] = None, *, all: bool = False, measure_afresh: bool = False, set: Optional[Mapping[str,
           Any]] = None, for_: Optional[str] = None, model: Optional[str] = None, tokens: Optional[Number] = None, task:
           Optional[str] = None, batch: Optional[Number] = None, length: Optional[Number] = None, on: Optional[str] =
           None, by: Optional[Date] = None, budget: Optional[Number] = None, profile: Optional[Path] = None, prices:
           Optional[Path] = None, write: Optional[Path] = None, count: Optional[Number] = None, memory_margin:
           Optional[Number] = None, on_progress: OnProgress = None) -> Advice:
    """From one GPU to many: what each brings, where to stop and why.

    Tries one GPU, one host, and more hosts, machine by machine. At each rung it prints the best plan, its time, memory,
    efficiency and price. It says where to stop, what breaks beyond, which learning rate and batch go with the choice,
    what failures cost, and the command that runs it. Of several machines it prints one line each; `all` prints their
    ladders. docs/capacity.md has six cases. `advise rehearse on p5.48xlarge count 4 -- torchrun train.py` runs the
    script itself at each rung, up to 4 hosts.

    Arguments:
        job: a dictionary, or the path of a job file; None: model= and other words say it.
        all: every rung of every machine, instead of a line for each machine.
        measure_afresh: measure this computer, although a quick profile of today is kept.
        set: override a key of the job by its dotted path.
        for_: a framework whose settings can express the plan: `list frameworks` names them: megatron-lm,
            megatron-bridge, torchtitan, deepspeed, accelerate, sagemaker, hyperpod.
        model: instead of a job file, or in place of its model: a name of the hub or of `list models`, llama:3B,
            llama:largest (with by or budget), or the path of a config.json.
        tokens: tokens of the whole job, such as 60B.
        task: what a job without a file does: pretrain, finetune, lora or qlora (pretrain).
        batch: sequences of a step (without it and without a job that says it, a usual batch).
        length: of a sequence, such as 4096 or 8k (without it and without a job that says it, the model's).
        on: a machine of `list machines`, a group (aws, p5, dgx), or GPUs: 8xH100, A100-80GB x 16; of a recorded step a
            machine (its own).
        by: when the whole job is to be done: a date, or a duration such as 30d; the cheapest such plan is the best
            where the job does not say what to minimize.
        budget: what the whole job may cost; where it does not say how long it is, the best plan trains on the most
            tokens.
        profile: the profile to use for the machine that it names, or for `local`, instead of the known one.
        prices: a price list whose rows go before those that are known (docs/prices.md).
        write: write the job with its plan, and every "auto" replaced; rehearse: the recorded step.
        count: hosts (of a recorded step, as few as have a GPU for each rank).
        memory_margin: share of a GPU's memory that plans leave free (0.03: allocators cut it into pieces, and predicted
            peaks are not exact).
        on_progress: called with a Progress while plans are searched; False: shows nothing.

    Returns Advice. Numbers are in SI units, and the unit is in the key: `step_time_s` is in seconds,
    `peak_memory_bytes` in bytes, `usd_per_hour` in US dollars; shares are from 0 to 1.
    Raises InputError for what is refused, NoPlanFits where nothing fits, Interrupted at Ctrl-C, with what was found
    until then.
    """
    options = {"all": all, "measure-afresh": measure_afresh, "set": set, "for": for_, "model": model, "tokens": tokens,
               "task": task, "batch": batch, "length": length, "on": on, "by": by, "budget": budget, "profile": profile,
               "prices": prices, "write": write, "count": count, "memory-margin": memory_margin}
    return run("advise", [job], options, on_progress, Advice)


def scale(job: Optional[Job] = None, *, measure_afresh: bool = False, set: Optional[Mapping[str, Any]] = None, for_:
          Optional[str] = None, model: Optional[str] = None, tokens: Optional[Number] = None, task: Optional[str] =
          None, batch: Optional[Number] = None, length: Optional[Number] = None, on: Optional[str] = None, by:
          Optional[Date] = None, budget: Optional[Number] = None, profile: Optional[Path] = None, prices: Optional[Path]
          = None, count: Optional[Number] = None, memory_margin: Optional[Number] = None, on_progress: OnProgress =
          None) -> Scaling:
    """Throughput, efficiency and cost over more and more GPUs.

    Plans the job on one host, two, four and so on, and prints throughput, efficiency and cost. Where the job says that
    hosts fail, it prints the goodput too.

    Arguments:
        job: a dictionary, or the path of a job file; None: model= and other words say it.
        measure_afresh: measure this computer, although a quick profile of today is kept.
        set: override a key of the job by its dotted path.
        for_: a framework whose settings can express the plan: `list frameworks` names them: megatron-lm,
            megatron-bridge, torchtitan, deepspeed, accelerate, sagemaker, hyperpod.
        model: instead of a job file, or in place of its model: a name of the hub or of `list models`, llama:3B,
            llama:largest (with by or budget), or the path of a config.json.
        tokens: tokens of the whole job, such as 60B.
        task: what a job without a file does: pretrain, finetune, lora or qlora (pretrain).
        batch: sequences of a step (without it and without a job that says it, a usual batch).
        length: of a sequence, such as 4096 or 8k (without it and without a job that says it, the model's).
        on: a machine of `list machines`, a group (aws, p5, dgx), or GPUs: 8xH100, A100-80GB x 16; of a recorded step a
            machine (its own).
        by: when the whole job is to be done: a date, or a duration such as 30d; the cheapest such plan is the best
            where the job does not say what to minimize.
        budget: what the whole job may cost; where it does not say how long it is, the best plan trains on the most
            tokens.
        profile: the profile to use for the machine that it names, or for `local`, instead of the known one.
        prices: a price list whose rows go before those that are known (docs/prices.md).
        count: hosts (of a recorded step, as few as have a GPU for each rank).
        memory_margin: share of a GPU's memory that plans leave free (0.03: allocators cut it into pieces, and predicted
            peaks are not exact).
        on_progress: called with a Progress while plans are searched; False: shows nothing.

    Returns Scaling. Numbers are in SI units, and the unit is in the key: `step_time_s` is in seconds,
    `peak_memory_bytes` in bytes, `usd_per_hour` in US dollars; shares are from 0 to 1.
    Raises InputError for what is refused, NoPlanFits where nothing fits, Interrupted at Ctrl-C, with what was found
    until then.
    """
    options = {"measure-afresh": measure_afresh, "set": set, "for": for_, "model": model, "tokens": tokens, "task":
               task, "batch": batch, "length": length, "on": on, "by": by, "budget": budget, "profile": profile,
               "prices": prices, "count": count, "memory-margin": memory_margin}
    return run("scale", [job], options, on_progress, Scaling)


def sensitivity(job: Optional[Job] = None, *, measure_afresh: bool = False, set: Optional[Mapping[str, Any]] = None,
                for_: Optional[str] = None, model: Optional[str] = None, tokens: Optional[Number] = None, task:
                Optional[str] = None, batch: Optional[Number] = None, length: Optional[Number] = None, on: Optional[str]
                = None, by: Optional[Date] = None, budget: Optional[Number] = None, profile: Optional[Path] = None,
                prices: Optional[Path] = None, count: Optional[Number] = None, on_progress: OnProgress =
                None) -> Sensitivity:
    """Which inputs move time or cost of the whole job most.

    Changes one input at a time (prices, bandwidths, failure rates, batch, the error of the prediction itself and
    others) and prints what moves the answer most, as a table and a tornado chart. A recorded step of a script takes the
    place of a job; its batch and its plan stay.

    Arguments:
        job: a dictionary, or the path of a job file; None: model= and other words say it.
        measure_afresh: measure this computer, although a quick profile of today is kept.
        set: override a key of the job by its dotted path.
        for_: a framework whose settings can express the plan: `list frameworks` names them: megatron-lm,
            megatron-bridge, torchtitan, deepspeed, accelerate, sagemaker, hyperpod.
        model: instead of a job file, or in place of its model: a name of the hub or of `list models`, llama:3B,
            llama:largest (with by or budget), or the path of a config.json.
        tokens: tokens of the whole job, such as 60B.
        task: what a job without a file does: pretrain, finetune, lora or qlora (pretrain).
        batch: sequences of a step (without it and without a job that says it, a usual batch).
        length: of a sequence, such as 4096 or 8k (without it and without a job that says it, the model's).
        on: a machine of `list machines`, a group (aws, p5, dgx), or GPUs: 8xH100, A100-80GB x 16; of a recorded step a
            machine (its own).
        by: when the whole job is to be done: a date, or a duration such as 30d; the cheapest such plan is the best
            where the job does not say what to minimize.
        budget: what the whole job may cost; where it does not say how long it is, the best plan trains on the most
            tokens.
        profile: the profile to use for the machine that it names, or for `local`, instead of the known one.
        prices: a price list whose rows go before those that are known (docs/prices.md).
        count: hosts (of a recorded step, as few as have a GPU for each rank).
        on_progress: called with a Progress while plans are searched; False: shows nothing.

    Returns Sensitivity. Numbers are in SI units, and the unit is in the key: `step_time_s` is in seconds,
    `peak_memory_bytes` in bytes, `usd_per_hour` in US dollars; shares are from 0 to 1.
    Raises InputError for what is refused, NoPlanFits where nothing fits, Interrupted at Ctrl-C, with what was found
    until then.
    """
    options = {"measure-afresh": measure_afresh, "set": set, "for": for_, "model": model, "tokens": tokens, "task":
               task, "batch": batch, "length": length, "on": on, "by": by, "budget": budget, "profile": profile,
               "prices": prices, "count": count}
    return run("sensitivity", [job], options, on_progress, Sensitivity)


def explain(*jobs: Job, measure_afresh: bool = False, set: Optional[Mapping[str, Any]] = None, profile: Optional[Path] =
            None, prices: Optional[Path] = None, measured: Optional[Path] = None, on_progress: OnProgress =
            None) -> Explanation:
    """Why a step takes longer than another, cause by cause.

    Compares two jobs, or one job with what set changes of it. The changes sum to the difference to the picosecond. With
    measured it compares the predicted step with a measured one: the trace of `train trace`, or what PyTorch's profiler
    saw of your own framework (docs/traces.md). A recorded step of a script (`rehearse write`) goes with measured too.

    Arguments:
        jobs: two jobs; or one, as it is and with what set= changes.
        measure_afresh: measure this computer, although a quick profile of today is kept.
        set: override a key of the job by its dotted path.
        profile: the profile to use for the machine that it names, or for `local`, instead of the known one.
        prices: a price list whose rows go before those that are known (docs/prices.md).
        measured: a trace that `train trace FILE` wrote, whose last step is compared with the predicted one; or the JSON
            of a rank that PyTorch's profiler exported.
        on_progress: called with a Progress while plans are searched; False: shows nothing.

    Returns Explanation. Numbers are in SI units, and the unit is in the key: `step_time_s` is in seconds,
    `peak_memory_bytes` in bytes, `usd_per_hour` in US dollars; shares are from 0 to 1.
    Raises InputError for what is refused, NoPlanFits where nothing fits, Interrupted at Ctrl-C, with what was found
    until then.
    """
    options = {"measure-afresh": measure_afresh, "set": set, "profile": profile, "prices": prices, "measured": measured}
    return run("explain", list(jobs), options, on_progress, Explanation)


def validate(*files: Path, profile: Optional[Path] = None, on_progress: OnProgress = None) -> Validation:
    """Predicted against published measurements.

    Predicts published measurements and prints the error of each source. Your own measurements in the same form work
    too.

    Arguments:
        files: files of published measurements, or of your own.
        profile: the profile to use for the machine that it names, or for `local`, instead of the known one.
        on_progress: called with a Progress while plans are searched; False: shows nothing.

    Returns Validation. Numbers are in SI units, and the unit is in the key: `step_time_s` is in seconds,
    `peak_memory_bytes` in bytes, `usd_per_hour` in US dollars; shares are from 0 to 1.
    Raises InputError for what is refused, Interrupted at Ctrl-C, with what was found until then.
    """
    options = {"profile": profile}
    return run("validate", list(files), options, on_progress, Validation)


def compile(job: Optional[Job] = None, *, measure_afresh: bool = False, set: Optional[Mapping[str, Any]] = None,
            profile: Optional[Path] = None, dump: Optional[Path] = None, on_progress: OnProgress = None) -> Compilation:
    """The compiler's levels: what each pass saves, the largest batch.

    Compares the levels of the training compiler (none, fused, full) under the job's plan: kernels, bytes moved, memory
    and step time, what each pass saves, the largest micro-batch that fits, and the learning rate for it.
    docs/compiler.md describes the passes.

    Arguments:
        job: a dictionary, or the path of a job file; None: model= and other words say it.
        measure_afresh: measure this computer, although a quick profile of today is kept.
        set: override a key of the job by its dotted path.
        profile: the profile to use for the machine that it names, or for `local`, instead of the known one.
        dump: write the graph after each pass, and the Programs, into this folder.
        on_progress: called with a Progress while plans are searched; False: shows nothing.

    Returns Compilation. Numbers are in SI units, and the unit is in the key: `step_time_s` is in seconds,
    `peak_memory_bytes` in bytes, `usd_per_hour` in US dollars; shares are from 0 to 1.
    Raises InputError for what is refused, NoPlanFits where nothing fits, Interrupted at Ctrl-C, with what was found
    until then.
    """
    options = {"measure-afresh": measure_afresh, "set": set, "profile": profile, "dump": dump}
    return run("compile", [job], options, on_progress, Compilation)


def fit(*, profile: Optional[Path] = None, runs: Optional[Path] = None, output: Optional[Path] = None, on_progress:
        OnProgress = None) -> Fit:
    """A machine's profile from your own measured steps.

    Moves the constants of a machine's profile as far as your measured steps call for, and writes a copy. It prints each
    run before and after, which constants moved, and the new interval. One run is enough to begin with
    (docs/accuracy.md).

    Arguments:
        profile: the profile to begin with, instead of the known one of the machine that it names.
        runs: measured steps, all on one machine, as in scenarios/evidence.
        output: the file to write.
        on_progress: called with a Progress while plans are searched; False: shows nothing.

    Returns Fit. Numbers are in SI units, and the unit is in the key: `step_time_s` is in seconds, `peak_memory_bytes`
    in bytes, `usd_per_hour` in US dollars; shares are from 0 to 1.
    Raises InputError for what is refused, Interrupted at Ctrl-C, with what was found until then.
    """
    options = {"profile": profile, "runs": runs, "output": output}
    return run("fit", [], options, on_progress, Fit)


def import_job(job: Optional[Path] = None, *, measure_afresh: bool = False, allow_unknown: bool = False, set:
               Optional[Mapping[str, Any]] = None, define: Optional[Mapping[str, Any]] = None, format: Optional[str] =
               None, profile: Optional[Path] = None, from_: Optional[Union[Path, Sequence[Path]]] = None, on_progress:
               OnProgress = None) -> Imported:
    """Read settings of another framework into a job file.

    Reads the settings of Megatron-LM, Megatron-Bridge and NeMo, torchtitan, DeepSpeed, accelerate, SageMaker or
    HyperPod. Each setting acts, or says why it has no meaning here. Nothing that is read is executed. docs/interop.md
    has every setting.

    Arguments:
        job: the job file to write; None: it is answered alone.
        measure_afresh: measure this computer, although a quick profile of today is kept.
        allow_unknown: list settings that are not known, instead of refusing them.
        set: override a key of the job by its dotted path.
        define: a variable of a shell script that is read, or (1=VALUE) its first argument.
        format: whose settings the files hold, where they do not say it: megatron-lm, megatron-bridge, torchtitan,
            deepspeed, accelerate, sagemaker, hyperpod.
        profile: the profile to use for the machine that it names, or for `local`, instead of the known one.
        from_: the files: settings, and beside them a model's config.json; of weights a folder with model.safetensors
            (or its index), or such a file; of export-weights the folder whose tokenizer and other files are kept; of
            launch an estimator as JSON, whose script is started.
        on_progress: called with a Progress while plans are searched; False: shows nothing.

    Returns Imported. Numbers are in SI units, and the unit is in the key: `step_time_s` is in seconds,
    `peak_memory_bytes` in bytes, `usd_per_hour` in US dollars; shares are from 0 to 1.
    Raises InputError for what is refused, Interrupted at Ctrl-C, with what was found until then.
    """
    options = {"measure-afresh": measure_afresh, "allow-unknown": allow_unknown, "set": set, "define": define, "format":
               format, "profile": profile, "from": from_}
    return run("import", [job], options, on_progress, Imported)


def export(job: Optional[Job] = None, *, measure_afresh: bool = False, set: Optional[Mapping[str, Any]] = None, for_:
           Optional[str] = None, by: Optional[Date] = None, budget: Optional[Number] = None, profile: Optional[Path] =
           None, prices: Optional[Path] = None, to: Optional[Path] = None, launcher: Optional[Sequence[str]] = None,
           on_progress: OnProgress = None) -> Exported:
    """Write a plan as settings of another framework, ready to start.

    Writes the settings, and what starts them with Slurm, torchrun, mpirun or Kubernetes. `plan for_ FRAMEWORK` looks
    for a plan among those that the framework can run. docs/interop.md has every setting.

    Arguments:
        job: a dictionary, or the path of a job file; None: model= and other words say it.
        measure_afresh: measure this computer, although a quick profile of today is kept.
        set: override a key of the job by its dotted path.
        for_: a framework whose settings can express the plan: `list frameworks` names them: megatron-lm,
            megatron-bridge, torchtitan, deepspeed, accelerate, sagemaker, hyperpod.
        by: when the whole job is to be done: a date, or a duration such as 30d; the cheapest such plan is the best
            where the job does not say what to minimize.
        budget: what the whole job may cost; where it does not say how long it is, the best plan trains on the most
            tokens.
        profile: the profile to use for the machine that it names, or for `local`, instead of the known one.
        prices: a price list whose rows go before those that are known (docs/prices.md).
        to: the folder to write.
        launcher: write what starts it with slurm, torchrun, mpirun or kubernetes (all of them).
        on_progress: called with a Progress while plans are searched; False: shows nothing.

    Returns Exported. Numbers are in SI units, and the unit is in the key: `step_time_s` is in seconds,
    `peak_memory_bytes` in bytes, `usd_per_hour` in US dollars; shares are from 0 to 1.
    Raises InputError for what is refused, NoPlanFits where nothing fits, Interrupted at Ctrl-C, with what was found
    until then.
    """
    options = {"measure-afresh": measure_afresh, "set": set, "for": for_, "by": by, "budget": budget, "profile":
               profile, "prices": prices, "to": to, "launcher": launcher}
    return run("export", [job], options, on_progress, Exported)


def evaluate(job: Optional[Job] = None, *, set: Optional[Mapping[str, Any]] = None, profile: Optional[Path] = None,
             checkpoint: Optional[Path] = None, steps: Optional[Number] = None, allow_changed: Optional[Sequence[str]] =
             None, data: Optional[Union[Path, Sequence[Path]]] = None, on_progress: OnProgress = None) -> Evaluation:
    """Print the loss and the perplexity of trained weights on a file of tokens.

    Runs on one process of this computer, whatever the job's degrees are, and without dropout. Without `data` it reads
    the job's `data.evaluation`, or its `data`.

    Arguments:
        job: a dictionary, or the path of a job file; None: model= and other words say it.
        set: override a key of the job by its dotted path.
        profile: the profile to use for the machine that it names, or for `local`, instead of the known one.
        checkpoint: the checkpoint, a folder of them (the newest good one), or a folder with model.safetensors; the
            job's checkpoint folder without it.
        steps: optimizer steps, instead of training.steps; evaluate: batches of training.global_batch sequences (all).
        allow_changed: go on although the checkpoint has another value of this key (or of keys of this section) of the
            job or its model.
        data: evaluate on these files, in the format that the job's data has.
        on_progress: called with a Progress while plans are searched; False: shows nothing.

    Returns Evaluation. Numbers are in SI units, and the unit is in the key: `step_time_s` is in seconds,
    `peak_memory_bytes` in bytes, `usd_per_hour` in US dollars; shares are from 0 to 1.
    Raises InputError for what is refused, Interrupted at Ctrl-C, with what was found until then.
    """
    options = {"set": set, "profile": profile, "checkpoint": checkpoint, "steps": steps, "allow-changed": allow_changed,
               "data": data}
    return run("evaluate", [job], options, on_progress, Evaluation)


def generate(job: Optional[Job] = None, *, set: Optional[Mapping[str, Any]] = None, prompt: Optional[str] = None,
             prompt_tokens: Optional[Union[str, Sequence[int]]] = None, profile: Optional[Path] = None, checkpoint:
             Optional[Path] = None, tokenizer: Optional[Path] = None, max_tokens: Optional[Number] = None, top_k:
             Optional[Number] = None, seed: Optional[Number] = None, allow_changed: Optional[Sequence[str]] = None,
             temperature: Optional[Number] = None, on_progress: OnProgress = None) -> Generation:
    """Print a text that trained weights go on with from a prompt.

    Runs the forward pass over the whole text for each token, on one process of this computer. The text ends after
    `max_tokens`, at the model's length, or with a token that the `generation_config.json` or `config.json` of the
    weights names as the end.

    Arguments:
        job: a dictionary, or the path of a job file; None: model= and other words say it.
        set: override a key of the job by its dotted path.
        prompt: the text to go on from.
        prompt_tokens: in place of prompt: its tokens, such as 1,2,3.
        profile: the profile to use for the machine that it names, or for `local`, instead of the known one.
        checkpoint: the checkpoint, a folder of them (the newest good one), or a folder with model.safetensors; the
            job's checkpoint folder without it.
        tokenizer: a Hugging Face tokenizer.json; without it that of the job's data, or one beside the weights.
        max_tokens: the most tokens to generate (32).
        top_k: with temperature: choose among this many most likely tokens only (all).
        seed: with temperature: the random numbers, and so the text (1).
        allow_changed: go on although the checkpoint has another value of this key (or of keys of this section) of the
            job or its model.
        temperature: draw each token at random, by its logit divided by T; without it the most likely one is taken.
        on_progress: called with a Progress while plans are searched; False: shows nothing.

    Returns Generation. Numbers are in SI units, and the unit is in the key: `step_time_s` is in seconds,
    `peak_memory_bytes` in bytes, `usd_per_hour` in US dollars; shares are from 0 to 1.
    Raises InputError for what is refused, Interrupted at Ctrl-C, with what was found until then.
    """
    options = {"set": set, "prompt": prompt, "prompt-tokens": prompt_tokens, "profile": profile, "checkpoint":
               checkpoint, "tokenizer": tokenizer, "max-tokens": max_tokens, "top-k": top_k, "seed": seed,
               "allow-changed": allow_changed, "temperature": temperature}
    return run("generate", [job], options, on_progress, Generation)
