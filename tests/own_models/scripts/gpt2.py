"""GPT-2 on made text: the calls of SageMaker's GPT-2 example. Only first stages read data."""

import argparse
import math
import os

import torch
import torch.utils.data
from transformers import AutoModelForCausalLM, GPT2Config, set_seed

import meshwright.smp as smp
from meshwright.smp.nn import FusedLayerNorm as LayerNorm
from meshwright.smp.nn.huggingface.gpt2 import translate_state_dict_to_hf_gpt2
from made import norms_of, report


@smp.step
def train_step(model, optimizer, input_ids, attention_mask, args):
    if args.logits_output:
        output = model(input_ids=input_ids, attention_mask=attention_mask, labels=input_ids)
        loss = output["loss"]
    else:
        loss = model(input_ids=input_ids, attention_mask=attention_mask, labels=input_ids)["loss"]
    model.backward(loss)
    if args.logits_output:
        return output
    return loss


@smp.step
def test_step(model, input_ids, attention_mask):
    loss = model(input_ids=input_ids, attention_mask=attention_mask, labels=input_ids)["loss"]
    return loss


class Text(torch.utils.data.Dataset):
    def __init__(self, seed):
        self.ids = torch.randint(0, 64, (48, 16), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return self.ids[index], torch.ones(16, dtype=torch.long)


class InTurns(torch.utils.data.Sampler):
    """Each batch of all replicas in turn, as one process reads them."""

    def __init__(self, length, batch):
        own = batch // smp.dp_size()
        self.places = [start + smp.dp_rank() * own + each for start in range(0, length, batch) for each in range(own)]

    def __iter__(self):
        return iter(self.places)

    def __len__(self):
        return len(self.places)


def create_dataloader(seed, batch=16):
    own = batch // smp.dp_size()
    if smp.pp_rank() == 0:
        data = Text(seed)
        loader = torch.utils.data.DataLoader(data, sampler=InTurns(len(data), batch), batch_size=own, drop_last=True)
        smp.broadcast(len(loader), smp.PP_GROUP)
        return loader
    length = smp.recv_from(0, smp.RankType.PP_RANK)
    nothing = torch.utils.data.TensorDataset(torch.zeros(length * own, 0), torch.zeros(length * own, 0))
    return torch.utils.data.DataLoader(nothing, batch_size=own, drop_last=True)


def groups_by_decay(module):
    decays, others = {"params": []}, {"params": [], "weight_decay": 0.0}
    seen = set()
    for each in module.modules():
        for name, parameter in each._parameters.items():
            if parameter is not None and id(parameter) not in seen:
                seen.add(id(parameter))
                plain = isinstance(each, LayerNorm) or name == "bias"
                (others if plain else decays)["params"].append(parameter)
    return decays, others


def eval_model(model, loader):
    model = model.eval()
    count, loss = 0, 0.0
    with torch.no_grad():
        for input_ids, attention_mask in loader:
            loss += test_step(model, input_ids, attention_mask).reduce_mean()
            count += 1
    torch.distributed.all_reduce(loss, group=smp.get_dp_process_group())
    loss = loss / smp.dp_size() / count
    return loss.item(), math.exp(loss.item())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--logits_output", default="")
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args(["--logits_output", "logits"])
    smp_config = {
        "ddp": True, "tensor_parallel_degree": 1, "pipeline_parallel_degree": 2, "microbatches": 2,
        "shard_optimizer_state": False, "prescaled_batch": False, "fp16": False, "bf16": False,
        "offload_activations": False, "optimize": "speed", "placement_strategy": "cluster", "auto_partition": False,
        "default_partition": 0, "static_mode": False, "fast_mode": False, "sharded_data_parallel_degree": 1,
        "active_microbatches": 2}
    smp.init(smp_config)
    set_seed(12345)
    config = GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=3, n_head=2, use_cache=False, return_dict=True)
    with smp.model_creation(tensor_parallelism=smp.tp_size() > 1, dtype=torch.get_default_dtype(),
                            attention_in_fp32=True, fused_softmax=True):
        model = AutoModelForCausalLM.from_config(config)
    model = smp.DistributedModel(model, trace_device="gpu", backward_passes_per_step=1)
    m = model.get_module()
    div, rem = divmod(3, smp.pp_size())
    assignments = []
    for pp_rank in range(smp.pp_size()):
        assignments += [pp_rank] * (div + 1 if pp_rank >= smp.pp_size() - rem else div)
    for layer, stage in zip(m.transformer.h.children(), assignments):
        smp.set_partition(layer, stage)
        smp.set_activation_checkpointing(layer)
    optimizer = torch.optim.AdamW(groups_by_decay(m), betas=(0.9, 0.95), lr=args.lr, weight_decay=0.01)
    optimizer = smp.DistributedOptimizer(optimizer, static_loss_scale=None, dynamic_loss_scale=True,
                                         dynamic_loss_args={"scale_window": 1000, "min_scale": 1, "delayed_shift": 2})
    losses, logits = [], None
    model.train()
    for number, (input_ids, attention_mask) in enumerate(create_dataloader(1)):
        optimizer.zero_grad(set_to_none=True)
        train_output = train_step(model, optimizer, input_ids, attention_mask, args)
        logits = torch.cat(tuple(train_output["logits"].outputs), dim=0)
        loss = train_output["loss"].reduce_mean()
        optimizer.step()
        if not optimizer.overflow:
            for group in optimizer.param_groups:
                group["lr"] = args.lr * (1 - (number + 1) / 10)
        torch.distributed.all_reduce(loss, group=smp.get_dp_process_group())
        losses.append(float(loss) / smp.dp_size())
    tested = eval_model(model, create_dataloader(2))
    smp.save_checkpoint(os.environ["SMP_FOLDER"], tag="fullmodel.pt", partial=False, model=model, user_content={"steps": 3})
    if smp.rank() == 0:
        whole = torch.load(os.path.join(os.environ["SMP_FOLDER"], "fullmodel.pt"))
        m.load_state_dict(translate_state_dict_to_hf_gpt2(whole, max_seq_len=16))
    assert logits.shape == (16 // smp.dp_size(), 16, 64), logits.shape
    report(losses=losses, tested=list(tested), norms=norms_of(model))
    smp.barrier()


if __name__ == "__main__":
    main()
