"""BERT's pretraining on made text: the calls of SageMaker's BERT example, stopped and gone on with."""

import os

import torch
import torch.utils.data
from transformers import BertConfig, BertForPreTraining

import meshwright.smp as smp
from made import mean_of_replicas, norms_of, part_of, report

STEPS, HALF = 6, 3


class BertPretrainingCriterion(torch.nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.loss_fn = torch.nn.CrossEntropyLoss(ignore_index=-1)
        self.vocab_size = vocab_size

    def forward(self, prediction_scores, seq_relationship_score, masked_lm_labels, next_sentence_labels):
        masked_lm_loss = self.loss_fn(prediction_scores.view(-1, self.vocab_size), masked_lm_labels.view(-1))
        next_sentence_loss = self.loss_fn(seq_relationship_score.view(-1, 2), next_sentence_labels.view(-1))
        return masked_lm_loss + next_sentence_loss


class PolyWarmUpScheduler(torch.optim.lr_scheduler.LRScheduler):
    def __init__(self, optimizer, warmup, total_steps, degree=0.5, last_epoch=-1):
        self.warmup, self.total_steps, self.degree = warmup, total_steps, degree
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        progress = (self.last_epoch + 1) / self.total_steps
        factor = progress / self.warmup if progress < self.warmup else (1 - progress) ** self.degree
        return [base * factor for base in self.base_lrs]


def train_step(args, input_ids, segment_ids, input_mask, masked_lm_labels, next_sentence_labels, model, criterion):
    output = model(input_ids=input_ids, token_type_ids=segment_ids, attention_mask=input_mask)
    loss = criterion(output[0], output[1], masked_lm_labels, next_sentence_labels)
    model.backward(loss)
    return loss


@smp.step
def smp_step(args, input_ids, segment_ids, input_mask, masked_lm_labels, next_sentence_labels, model, optimizer,
             criterion):
    return train_step(args, input_ids, segment_ids, input_mask, masked_lm_labels, next_sentence_labels, model, criterion)


def batch(step):
    generator = torch.Generator().manual_seed(step)
    size, length = 16, 16
    labels = torch.randint(0, 96, (size, length), generator=generator)
    labels[torch.rand(size, length, generator=generator) > 0.15] = -1
    labels[:, 0] = 5   # no sequence is without a masked token
    mask = torch.ones(size, length, dtype=torch.long)
    mask[::3, 12:] = 0
    return part_of(torch.randint(0, 96, (size, length), generator=generator),
                   (torch.arange(length) > 7).long().repeat(size, 1), mask, labels,
                   torch.randint(0, 2, (size,), generator=generator))


def prepare():
    torch.manual_seed(4211)
    config = BertConfig(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                        max_position_embeddings=32, return_dict=False)
    model = smp.DistributedModel(BertForPreTraining(config))
    model.to("cpu")
    no_decay = ["bias", "LayerNorm"]
    groups = [{"params": [p for n, p in model.named_parameters() if not any(each in n for each in no_decay)],
               "weight_decay": 0.01},
              {"params": [p for n, p in model.named_parameters() if any(each in n for each in no_decay)],
               "weight_decay": 0.0}]
    optimizer = smp.DistributedOptimizer(torch.optim.AdamW(groups, lr=3e-3))
    return model, optimizer, PolyWarmUpScheduler(optimizer, 0.3, 2 * STEPS), BertPretrainingCriterion(96)


def train(model, optimizer, scheduler, criterion, first, end):
    losses = []
    model.train()
    for number in range(first, end):
        loss_mbs = smp_step("args", *batch(number), model, optimizer, criterion)
        losses.append(mean_of_replicas(loss_mbs.reduce_mean()))
        optimizer.step()
        scheduler.step()
        for each in model.parameters():
            each.grad = None
    return losses


def main():
    folder = os.environ["SMP_FOLDER"]
    smp.init({"partitions": 2, "microbatches": 2, "ddp": True, "shard_optimizer_state": True})
    model, optimizer, scheduler, criterion = prepare()
    losses = train(model, optimizer, scheduler, criterion, 0, HALF)
    smp.save_checkpoint(folder, tag="half", partial=True, model=model, optimizer=optimizer,
                        user_content={"step": HALF, "scheduler": scheduler.state_dict()})
    smp.close()

    # Resumes in another run, which has other degrees.
    smp.init({"pipeline_parallel_degree": 4, "microbatches": 4})
    model, optimizer, scheduler, criterion = prepare()
    content = smp.resume_from_checkpoint(folder, partial=True)
    scheduler.load_state_dict(content["scheduler"])
    for group, rate in zip(optimizer.param_groups, scheduler.get_last_lr()):
        group["lr"] = rate
    losses += train(model, optimizer, scheduler, criterion, content["step"], STEPS)
    report(losses=losses, norms=norms_of(model))


if __name__ == "__main__":
    main()
