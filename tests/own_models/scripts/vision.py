"""A small ResNet on made pictures under sharded data parallelism: the calls of a script that fine-tunes one."""

import torch
import torch.nn as nn
import torch.nn.functional as F

import meshwright.smp as smp
from made import mean_of_replicas, norms_of, part_of, report


class Block(nn.Module):
    def __init__(self, width, out, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.norm2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.short = nn.Conv2d(width, out, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.short(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.blocks = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2), Block(16, 16, 1), Block(16, 32, 2))
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.drop(self.blocks(self.stem(x)).mean((2, 3))))


@smp.step
def train_step(model, batch, smoothing):
    logits = model(batch["pictures"])
    loss = F.cross_entropy(logits, batch["labels"], label_smoothing=smoothing)
    model.backward(loss)
    return {"loss": loss, "hits": (logits.argmax(1) == batch["labels"]).float().mean()}


def main():
    torch.manual_seed(7)
    smp.init({"sharded_data_parallel_degree": 4, "microbatches": 2, "ddp": True, "sdp_gradient_clipping": 1000.0,
              "sdp_param_persistence_threshold": 1})
    with smp.delay_param_initialization():
        net = Net()
    model = smp.DistributedModel(net)
    optimizer = smp.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
    losses, hits = [], []
    for number in range(5):
        generator = torch.Generator().manual_seed(number)
        pictures, labels = part_of(torch.randn(32, 3, 16, 16, generator=generator),
                                   torch.randint(0, 10, (32,), generator=generator))
        optimizer.zero_grad()
        output = train_step(model, {"pictures": pictures, "labels": labels}, 0.1)
        optimizer.step()
        scheduler.step()
        losses.append(mean_of_replicas(output["loss"].reduce_mean()))
        hits.append(mean_of_replicas(output["hits"].reduce_mean()))
    state = model.state_dict()
    assert float(state["blocks.0.norm1.running_var"].sum()) > 0
    report(losses=losses, hits=hits, norms={name: value for name, value in norms_of(model).items()
                                            if "running" not in name})   # of replica 0's micro-batches


if __name__ == "__main__":
    main()
