"""A convolutional net on made digits: the calls of SageMaker's MNIST example, with evaluation and its output."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR

import meshwright.smp as smp
from made import mean_of_replicas, norms_of, part_of, report

torch.manual_seed(1)


class Net1(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 1)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return torch.flatten(F.max_pool2d(x, 2), 1)


class Net2(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(576, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), 1)


class GroupedNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = Net1()
        self.net2 = Net2()

    def forward(self, x):
        return self.net2(self.net1(x))


@smp.step
def train_step(model, scaler, data, target):
    output = model(data)
    loss = F.nll_loss(output, target, reduction="mean")
    model.backward(scaler.scale(loss))
    return output, loss


@smp.step
def test_step(model, data, target):
    output = model(data)
    loss = F.nll_loss(output, target, reduction="sum").item()
    pred = output.argmax(dim=1, keepdim=True)
    correct = pred.eq(target.view_as(pred)).sum().item()
    return loss, correct


def batches(count, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield part_of(torch.randn(16, 1, 16, 16, generator=generator),
                      torch.randint(0, 10, (16,), generator=generator))


def main():
    smp.init({"pipeline_parallel_degree": 2, "microbatches": 4, "ddp": True, "placement_strategy": "spread"})
    model = GroupedNet()
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    model = smp.DistributedModel(model)
    scaler = smp.amp.GradScaler()
    optimizer = smp.DistributedOptimizer(optimizer)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    losses, tested = [], []
    for epoch in range(2):
        model.train()
        for data, target in batches(3, epoch):
            optimizer.zero_grad()
            output, loss_mb = train_step(model, scaler, data, target)
            loss = loss_mb.reduce_mean()
            scaler.step(optimizer)
            scaler.update()
            again = F.nll_loss(output.concat(), target)
            assert abs(float(again) - float(loss)) < 1e-5, (again, loss)
            losses.append(mean_of_replicas(loss))
        model.eval()
        with torch.no_grad():
            for data, target in batches(2, 100):
                loss, correct = test_step(model, data, target)
                tested.append(mean_of_replicas(sum(loss)) * smp.dp_size())
        scheduler.step()
    if smp.dp_rank() == 0:
        smp.save({"model_state_dict": model.local_state_dict()}, os.path.join(os.environ["SMP_FOLDER"], "mnist.pt"),
                 partial=True)
    smp.barrier()
    report(losses=losses, tested=tested, norms=norms_of(model))


if __name__ == "__main__":
    main()
