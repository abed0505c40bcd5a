"""A small convolutional net on made pictures by DistributedDataParallel, as PyTorch's examples are written."""

import argparse
import json
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Pictures(Dataset):
    """Noise with one bright row, whose number is the class."""

    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(8, (count,), generator=generator)
        self.pictures = torch.randn(count, 1, 8, 8, generator=generator)
        self.pictures[torch.arange(count), 0, self.labels] += 2.0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.pictures[index], self.labels[index]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.fc1, self.fc2 = nn.Linear(128, 32), nn.Linear(32, 8)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


def train(model, loader, criterion, optimizer):
    model.train()
    total = 0.0
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        total += mean.item() / dist.get_world_size()
    return total / len(loader)


def evaluate(model, loader):
    model.eval()
    right, count = torch.zeros(()), 0
    with torch.no_grad():
        for images, labels in loader:
            right += (model(images).argmax(1) == labels).sum()
            count += len(labels)
    found = torch.stack([right, torch.tensor(float(count))])
    dist.all_reduce(found)
    return (found[0] / found[1]).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8, help="of each process")
    parser.add_argument("--out", default="out")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    train_set, test_set = Pictures(64, seed=1), Pictures(32, seed=2)
    sampler = DistributedSampler(train_set, world_size, rank)
    train_loader = DataLoader(train_set, args.batch_size, sampler=sampler)
    test_loader = DataLoader(test_set, args.batch_size, sampler=DistributedSampler(test_set, world_size, rank, shuffle=False))
    model = DDP(Net())
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
    losses, right = [], []
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        losses.append(train(model, train_loader, criterion, optimizer))
        right.append(evaluate(model, test_loader))
        scheduler.step()
        if rank == 0:
            print("epoch {} loss {:.4f} accuracy {:.3f}".format(epoch, losses[-1], right[-1]))
    if rank == 0:
        torch.save(model.module.state_dict(), os.path.join(args.out, "model.pt"))
        with open(os.path.join(args.out, "report.json"), "w") as file:
            json.dump({"losses": losses, "evaluated": right}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
