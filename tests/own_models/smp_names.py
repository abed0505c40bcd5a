#!/usr/bin/env python3
"""Goes through the public names of SageMaker's model-parallel library: each acts, or is refused with a reason.

The names are facts of AWS's public documentation: version 1 of the API reference of sagemaker-python-sdk
(doc/api/training/smp_versions/latest/smd_model_parallel_{common_api,pytorch,pytorch_tensor_parallel}.rst, the last
commit before they were archived), of its examples, and version 2 of "SageMaker model parallel library v2 reference".
A row is a name and a call of it. The script is one process: no mpirun is needed.
"""

import contextlib
import os
import sys
import tempfile
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn as nn
import torch.nn.functional as F

import meshwright.smp as smp
import meshwright.torch.sagemaker as tsm
from meshwright.smp import Refused

warnings.simplefilter("ignore")
torch.set_num_threads(1)


def ran(context):
    with context:
        return nn.Linear(2, 2)


RANKS = [("{}_{}".format(group, word), lambda found: found()) for group in ("tp", "pp", "rdp", "mp", "dp")
         for word in ("rank", "size")]
GROUPS = [("get_{}_group".format(group), lambda found: found()) for group in ("mp", "dp", "tp", "pp", "rdp", "world")]
PROCESS_GROUPS = [("get_{}_process_group".format(group), lambda found: torch.distributed.get_world_size(found()) == 1)
                  for group in ("world", "tp", "pp", "rdp", "mp", "dp")]
KINDS = [(name, lambda found: found.name) for name in ("WORLD", "MP_GROUP", "DP_GROUP", "TP_GROUP", "PP_GROUP",
                                                       "RDP_GROUP")]
TRANSLATIONS = [("nn.huggingface.{0}.{1}".format(model, name.format(model)), lambda found: found({"a": 1})["a"] == 1)
                for model in ("gpt2", "bert", "roberta", "gptj", "gptneo", "gptneox", "t5", "vit")
                for name in ("translate_state_dict_to_hf_{}", "translate_hf_state_dict_to_smdistributed_{}")]
# Pairs of a name of version 1 and a check of it. None means that the training below uses the name.
V1 = RANKS + GROUPS + PROCESS_GROUPS + KINDS + TRANSLATIONS + [
    ("init", None), ("step", None), ("DistributedModel", None), ("DistributedOptimizer", None), ("StepOutput", None),
    ("save_checkpoint", None), ("resume_from_checkpoint", None), ("save", None), ("load", None),
    ("is_initialized", lambda found: found()), ("is_tracing", lambda found: not found()),
    ("rank", lambda found: found() == 0), ("size", lambda found: found() == 1),
    ("local_rank", lambda found: found() == 0), ("local_size", lambda found: found() == 1),
    ("CommGroup", lambda found: found.WORLD), ("RankType.WORLD_RANK", str), ("RankType.MP_RANK", str),
    ("RankType.DP_RANK", str), ("RankType.PP_RANK", str),
    ("broadcast", lambda found: found(1, smp.WORLD) is None), ("allgather", lambda found: found(3, smp.WORLD) == [3]),
    ("send", callable), ("recv_from", callable), ("barrier", lambda found: found() is None),
    ("dp_barrier", lambda found: found() is None), ("mp_barrier", lambda found: found() is None),
    ("partition", lambda found: ran(found(0))), ("set_partition", lambda found: found(nn.Linear(1, 1), 0) is None),
    ("get_partition", lambda found: found(nn.Linear(1, 1)) is None),
    ("tensor_parallelism", lambda found: ran(found())),
    ("set_tensor_parallelism", lambda found: found(nn.Linear(1, 1), True) is None),
    ("tp_register", lambda found: found(nn.Linear)(nn.Linear) is nn.Linear),
    ("tp_register_with_module", lambda found: found(nn.Linear, nn.Linear) is None),
    ("model_creation", lambda found: ran(found(dtype=torch.float64)).weight.dtype == torch.float64),
    ("delay_param_initialization", lambda found: ran(found(enabled=True))),
    ("set_activation_checkpointing", lambda found: found(nn.Sequential(), strategy="group_2") is None),
    ("checkpoint", lambda found: found(nn.Linear(2, 2), torch.ones(2)).shape),
    ("checkpoint_sequential", lambda found: found(nn.Sequential(nn.Linear(2, 2)), torch.ones(2)).shape),
    ("amp.GradScaler", lambda found: found().scale(5) == 5),
    ("optimizers.FusedAdam", lambda found: found([nn.Parameter(torch.ones(1))])),
    ("optimizers.FusedNovoGrad", Refused), ("optimizers.FusedLamb", Refused),
    ("nn.DistributedLinear", lambda found: found(2, 2)), ("nn.DistributedEmbedding", lambda found: found(4, 2)),
    ("nn.FusedLayerNorm", lambda found: found(4)), ("nn.DistributedLayerNorm", lambda found: found(4)),
    ("nn.DistributedTransformer", Refused), ("nn.DistributedTransformerLMHead", Refused),
    ("nn.DistributedTransformerLayer", Refused), ("nn.DistributedTransformerOutputLayer", Refused),
    ("nn.DistributedAttentionLayer", Refused), ("nn.FlashAttentionLayer", Refused)]

OF_OUTPUT = [("outputs", lambda found: len(found) == 4), ("reduce_mean", lambda found: found().dim() == 0),
             ("reduce_sum", lambda found: found().dim() == 0), ("concat", lambda found: found().shape == (4,)),
             ("stack", lambda found: found().shape == (4,)), ("merge", lambda found: found().shape == (4,)),
             ("average", lambda found: found().dim() == 0), ("accumulate", lambda found: found().dim() == 0)]
OF_MODEL = [(name, lambda found: list(found())) for name in (
    "local_parameters", "local_buffers", "local_modules", "local_named_parameters", "local_named_buffers",
    "local_named_modules", "named_parameters", "parameters", "local_state_dict", "state_dict",
    "default_reducer_named_parameters")] + [
    ("scaled_batch_reducer_named_parameters", lambda found: not list(found())),
    ("distributed_modules", lambda found: found() == []),
    ("partitioned", bool), ("get_module", lambda found: isinstance(found(), nn.Module)), ("backward", callable),
    ("register_post_partition_hook", lambda found: found(lambda model, optimizer: None) is None),
    ("register_comm_hook", Refused), ("join", Refused), ("cpu", lambda found: found()), ("to", lambda found: found("cpu")),
    ("load_state_dict", callable), ("train", lambda found: found()), ("eval", lambda found: found().train()),
    ("is_distributed_parameter", lambda found: not found(None)), ("is_distributed_buffer", lambda found: not found(None)),
    ("is_scaled_batch_parameter", lambda found: not found(None)),
    ("is_scaled_batch_buffer", lambda found: not found(None))]
OF_OPTIMIZER = [("state_dict", lambda found: found()["param_groups"]), ("local_state_dict", lambda found: found()),
                ("load_state_dict", lambda found: found({"param_groups": [{"lr": 0.01}]}) is None),
                ("clip_master_grads", lambda found: found(1e9) > 0), ("overflow", lambda found: found is False),
                ("optimizer", lambda found: found.param_groups), ("param_groups", list), ("step", callable),
                ("zero_grad", lambda found: found() is None)]
# Pairs of a name of version 2 and a check of it.
V2 = [
    ("init", lambda found: found() is None), ("is_initialized", lambda found: found()),
    ("transform", callable), ("state.rank", lambda found: found == 0), ("state.world_size", lambda found: found == 1),
    ("state.tp_size", lambda found: found == 1), ("state.tp_rank", lambda found: found == 0),
    ("state.tensor_parallel_degree", lambda found: found == 1), ("state.expert_parallel_degree", lambda found: found == 1),
    ("state.context_parallel_degree", lambda found: found == 1), ("state.cp_size", lambda found: found == 1),
    ("state.cp_rank", lambda found: found == 0), ("state.hybrid_shard_degree", lambda found: found == 1),
    ("state.tp_process_group", lambda found: found), ("state.world_process_group", lambda found: found),
    ("state.rep_rank_process_group", lambda found: found),
    ("delayed_param.DelayedParamIniter", lambda found: found(nn.Linear(1, 1)).get_param_init_fn()),
    ("distributed.checkpoint.state_dict_saver.save", callable),
    ("distributed.checkpoint.state_dict_saver.async_save", callable),
    ("distributed.checkpoint.state_dict_saver.maybe_finalize_async_calls", lambda found: found() is None),
    ("distributed.checkpoint.state_dict_loader.load", callable),
    ("moe.moe_config.MoEConfig", Refused), ("nn.attn.FlashSelfAttention", Refused),
    ("nn.attn.FlashGroupedQueryAttention", Refused),
    ("nn.huggingface.llama_flashattn.LlamaFlashAttention", Refused),
    ("utils.module_utils.compute_num_params", lambda found: found(nn.Linear(2, 2)) == 6),
    ("grad_norm.clip_grad_norm_", callable)]


def attribute(of, name):
    for word in name.split("."):
        of = getattr(of, word)
    return of


def checked(of, rows, title):
    """Names that do neither act nor refuse."""
    bad = []
    for name, ask in rows:
        try:
            found = attribute(of, name)
            if ask is Refused:
                try:
                    found(None, None)
                    bad.append("{}.{}: is not refused".format(title, name))
                except Refused as error:
                    if len(str(error)) < 60:
                        bad.append("{}.{}: is refused without a reason".format(title, name))
            elif ask is not None and ask(found) is False:
                bad.append("{}.{}: answers something else".format(title, name))
        except Exception as error:
            bad.append("{}.{}: {}: {}".format(title, name, type(error).__name__, error))
    return bad


@smp.step
def train_step(model, x, y):
    loss = F.mse_loss(model(x), y)
    model.backward(loss)
    return loss


@smp.step
def without_loss(model, x, y):
    return F.mse_loss(model(x), y)


REFUSED_USES = [
    ("a tensor degree", lambda: smp.init({"tensor_parallel_degree": 2, "ddp": True}), "operations of a captured model"),
    ("gradient accumulation", lambda: smp.DistributedModel(nn.Linear(2, 2), backward_passes_per_step=2), "microbatches"),
    ("outputs with a graph", lambda: smp.step(lambda x: x, detach_outputs=False), "over when the step returns"),
    ("a step without backward", lambda: without_loss(model(), torch.ones(4, 3), torch.ones(4, 2)), "0 times"),
    ("a call outside of a step", lambda: model()(torch.ones(4, 3)), "outside of a step function"),
    ("an uneven batch", lambda: train_step(model(), torch.ones(3, 3), torch.ones(3, 2)), "drop_last")]


def model():
    net = smp.DistributedModel(nn.Linear(3, 2))
    smp.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1))
    return net


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, x, labels):
        logits = self.two(torch.tanh(self.one(x)))
        return {"loss": F.mse_loss(logits, labels), "logits": logits}


def version_2():
    """Losses of a script of version 2, and of plain PyTorch."""
    torch.manual_seed(3)
    net, plain = Net(), Net()
    plain.load_state_dict(net.state_dict())
    batch = {"x": torch.randn(8, 3), "labels": torch.randn(8, 2)}
    tsm.init({"hybrid_shard_degree": 1})
    model = tsm.transform(net)
    losses = []
    for model, make in ((model, tsm.DistributedOptimizer), (plain, lambda optimizer, **_: optimizer)):
        optimizer = make(torch.optim.AdamW(model.parameters(), lr=0.05), gradient_clip=0.5)
        own = []
        for _ in range(4):
            loss = model(**batch)["loss"]
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
            own.append(loss.item())
        model.eval()
        with torch.no_grad():
            own.append(model(**batch)["loss"].item())
        losses.append(own)
    return losses


def main():
    folder = tempfile.mkdtemp(prefix="smp-")
    smp.init({"microbatches": 4})
    bad = checked(smp, V1, "smp")
    net = smp.DistributedModel(nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)))
    optimizer = smp.DistributedOptimizer(torch.optim.AdamW(net.parameters(), lr=0.01))
    x, y = torch.randn(8, 3), torch.randn(8, 2)
    output = train_step(net, x, y)
    optimizer.step()
    bad += checked(output, OF_OUTPUT, "StepOutput")
    bad += checked(net, OF_MODEL, "DistributedModel")
    bad += checked(optimizer, OF_OPTIMIZER, "DistributedOptimizer")
    try:
        train_step(net, x, y)
        train_step(net, x, y)
        bad.append("two steps without optimizer.step() are not refused")
    except Refused:
        optimizer.step()
    smp.save_checkpoint(folder, "older", model=net, optimizer=optimizer, num_kept_partial_checkpoints=1)
    smp.save_checkpoint(folder, "tag", model=net, optimizer=optimizer, user_content={"a": 1},
                        num_kept_partial_checkpoints=1)
    if sorted(os.listdir(folder)) != ["newest", "tag_partial"]:
        bad.append("smp.save_checkpoint: keeps " + ", ".join(sorted(os.listdir(folder))))
    smp.save(net.local_state_dict(), os.path.join(folder, "own"), partial=True)
    if not smp.load(os.path.join(folder, "own"), partial=True)["_smp_is_partial"]:
        bad.append("smp.load: gives something else")
    before = float(train_step(net, x, y).reduce_mean())
    optimizer.step()
    if smp.resume_from_checkpoint(folder)["a"] != 1 or abs(float(train_step(net, x, y).reduce_mean()) - before) > 1e-6:
        bad.append("smp.resume_from_checkpoint: goes on elsewhere")
    smp.close()
    for name, use, words in REFUSED_USES:
        smp.close()
        try:
            smp.init({"microbatches": 2})
            use()
            bad.append("{}: is not refused".format(name))
        except (Refused, ValueError) as error:
            if words not in str(error):
                bad.append("{}: {}".format(name, error))
        except Exception as error:
            bad.append("{}: {}: {}".format(name, type(error).__name__, error))
    smp.close()
    planned, plain = version_2()
    if max(abs(a - b) for a, b in zip(planned, plain)) > 1e-5:
        bad.append("torch.sagemaker: losses {} instead of {}".format(planned, plain))
    bad += checked(tsm, V2, "torch.sagemaker")
    for each in bad:
        print(each)
    count = sum(len(rows) for rows in (V1, OF_OUTPUT, OF_MODEL, OF_OPTIMIZER, V2))
    print("{} of {} names neither act nor are refused".format(len(bad), count) if bad else
          "{} names act or are refused".format(count))
    return 1 if bad else 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
