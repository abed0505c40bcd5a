"""Answers of the commands: dictionaries whose keys are attributes too. The unit is in the key."""
# Written by tools/python/generate from what the program says; not by hand.
from typing import Any, Dict, List, Optional

from ._answer import Answer

__all__ = [
    "Advice", "Change", "Compilation", "Evaluation", "Explanation", "Exported", "Fit", "FittedRun", "Generation",
    "Imported", "Ladder", "Level", "Measurement", "Names", "Plan", "Plans", "Prediction", "Rung", "ScalePoint",
    "Scaling", "Sensitivity", "SensitivityInput", "Setting", "Validation"]


class Parallelism(Answer):
    """The part `parallelism` of an answer."""

    active_microbatches: Optional[int]
    """largest number of micro-batches in flight on a stage"""
    context: Any
    context_exchange: Optional[str]
    """how ranks of a context group share keys and values: `p2p` around a ring, `all_gather` all at once, `all_to_all`
    by heads (DeepSpeed-Ulysses), `a2a+p2p` by heads among neighbours, then around rings"""
    context_heads: Optional[int]
    """for `a2a+p2p`: number of neighbours in a context group that exchange heads"""
    data: Any
    expert: Any
    expert_dispatch: Optional[str]
    """for predictions: how tokens travel to experts"""
    expert_tensor: Optional[int]
    """ranks of a tensor group that split each expert: 1 or tensor"""
    hierarchical_gather: Optional[bool]
    """sharded weights are gathered between hosts first, among ranks with equal positions in their hosts, then inside
    the hosts"""
    max_live_parameters: Optional[int]
    """for `zero_stage` 3: prefetching pauses while this many elements are gathered"""
    memory_weight: Optional[float]
    """what the partition balances: 0 time, 1 memory"""
    offload: Optional[str]
    """what is stored in host memory and copied while the device computes: `activations` that are saved for
    recomputation, those of single `layers`, or the `optimizer`'s states"""
    offload_horizon: Optional[int]
    """for `offload` of activations: how early they come back"""
    overlap: Any
    """which communication overlaps with compute, see Overlap"""
    partition: Any
    """see Partition"""
    persistence_threshold: Optional[int]
    """for `zero_stage` 3: parameters with fewer elements on a rank of the tensor group are not sharded"""
    pipeline: Any
    pipeline_scatter_gather: Optional[bool]
    """each rank of a tensor group sends 1/tensor of an activation to the next stage, which gathers it"""
    placement: Optional[str]
    """the right-most letter's ranks are neighbours"""
    reduce_bucket_bytes: Optional[int]
    """gradients are reduced once this many bytes of them are ready; a bucket ends with a parameter"""
    reduce_gradients: Optional[str]
    """when gradients are summed over the replicas: `each` in the backward of every micro-batch, `last` once a step"""
    reshard_after_forward: Optional[str]
    """for `zero_stage` 3: `always` drops a unit's gathered parameters after its forward and gathers them again before
    its backward"""
    schedule: Optional[str]
    """order of each stage's tasks, see Schedules"""
    sequence_parallel: Optional[bool]
    """tensor divides micro_batch × sequence_length"""
    shard: Optional[int]
    """ranks that share sharded states; divides data × context; 1 with a `zero_stage` means all of them; above 1 with
    `zero_stage` 0: an error"""
    shard_layout: Optional[str]
    """`flat`: buffers of several parameters are split into equal shards"""
    tensor: Any
    tensor_batch: Optional[str]
    """`own`: each tensor rank reads micro_batch ÷ tensor sequences, which must be whole"""
    tensor_chunks: Optional[int]
    """with `tensor` in `overlap`: number of chunks of rows into which matmuls are split, so that the communication of
    one chunk overlaps with the matmul of the next"""
    tensor_layout: Optional[str]
    """see Tensor layouts"""
    virtual_stages: Any
    zero_stage: Any


class Adafactor(Answer):
    """The part `adafactor` of an answer."""

    clip_threshold: Optional[float]
    """of updates"""
    decay_rate: Optional[float]
    """of second moments"""
    eps1: Optional[float]
    """added to squared gradients"""
    eps2: Optional[float]
    """least size of a parameter"""
    relative_step: Optional[bool]
    """at most 1 / sqrt(t)"""
    scale_parameter: Optional[bool]
    """by a parameter's size"""


class Lora(Answer):
    """The part `lora` of an answer."""

    target_modules: Any
    """names of linear layers"""
    alpha: Optional[float]
    """alpha / rank is the factor"""
    base_weights: Optional[str]
    """storage of the frozen linear layers of blocks"""
    double_quantization: Optional[bool]
    """for `nf4`: 8-bit scales"""
    dropout: Optional[float]
    """of what A reads"""
    group_size: Optional[int]
    """for `int4`: elements with one scale"""
    rank: Optional[int]
    """rows of A, columns of B"""


class Training(Answer):
    """The part `training` of an answer."""

    _parts = {"adafactor": Adafactor, "lora": Lora}
    adafactor: Optional[Adafactor]
    """settings for `optimizer: adafactor`, with the names and defaults of transformers' Trainer, see Optimizers"""
    attention: Optional[str]
    """score matrix in memory (`unfused`), or fused kernels with equal results at different speeds"""
    beta1: Optional[float]
    """decay of the first moment, for `adamw`, `adam`, `lamb` and the parameters that `muon` leaves to `adamw`"""
    beta2: Optional[float]
    """decay of the second moment, for the optimizers of `beta1`"""
    compiler: Optional[str]
    """level of the training compiler: `none` runs the operations of an eager framework, one kernel each, the
    optimizer's too; `fused` one hand-fused kernel per module; `full` all passes (`docs/compiler.md`, `meshwright list
    passes`, `meshwright compile JOB`)"""
    cross_entropy_fusion: Optional[bool]
    """false, with `compiler: fused`: the loss is predicted as separate kernels (cast of the logits to fp32, maximum,
    difference, exponents, sum, division), as Megatron-LM runs it without `cross_entropy_loss_fusion`"""
    cuda_graph: Optional[bool]
    """a step on GPUs is recorded once and started as one CUDA graph, except while it is traced, and with the
    communicator `mpi`"""
    decay_steps: Optional[int]
    """for `warmup_stable_decay`: number of last steps, in which the rate falls"""
    deterministic: Optional[bool]
    """for ranks on GPUs: no algorithm is chosen by timing and attention is not cuDNN's, so every run has the same bits
    on every GPU of one kind"""
    documents_per_row: Optional[float]
    """for predictions with `packing`: mean number n of documents in a row"""
    dropout: Any
    ema_decay: Optional[float]
    """decay of an exponential moving average of the weights, in fp32: 4 bytes for each trained parameter, sharded like
    the masters"""
    epsilon: Optional[float]
    """for `adamw`, `adam` and `lamb`: added to the root of the second moment"""
    expert_imbalance: Optional[float]
    """for predictions: tokens of the most loaded rank of an expert group relative to the mean, in each layer, at most
    `expert`"""
    expert_skew: Optional[float]
    """for predictions, instead of `expert_imbalance` (both: an error): tokens choose experts by Zipf's law with this
    exponent"""
    first_layers_in_bf16: Optional[int]
    """for `precision: fp8` and `nvfp4`: number of blocks at the beginning of the model (of an encoder and of a decoder
    each) that multiply 16 bits"""
    fp8_experts: Optional[bool]
    """for `precision: fp8` and `nvfp4`: experts multiply 8 or 4 bits too; all experts of a layer on one rank are one
    tensor"""
    fp8_gathers: Optional[bool]
    """for `precision: fp8` with `zero_stage` 3 and `fp8_recipe: tensorwise`: weights that are only multiplied in 8 bits
    are rounded before they are gathered, once a step"""
    fp8_recipe: Optional[str]
    """for `precision: fp8`: which elements share a scale, see Precision"""
    framework: Optional[str]
    """whose step is predicted, and whose plans `plan` searches"""
    fuse_gradient_accumulation: Optional[bool]
    """the fp32 main gradient is summed inside the GEMM"""
    global_batch: Any
    gradient_clip: Optional[float]
    """largest global norm of the gradients; larger ones are scaled down to it"""
    gradient_clip_value: Optional[float]
    """instead of `gradient_clip` (both: an error): each element of the gradient is limited to this distance from 0"""
    gradient_reduce_precision: Optional[str]
    """type in which gradients are stored and sent; sums over ranks are made in fp32 and rounded once"""
    last_layers_in_bf16: Optional[int]
    """number of blocks at the end of the model that multiply 16 bits, see `first_layers_in_bf16`"""
    learning_rate: Any
    learning_rate_schedule: Optional[str]
    """share of `learning_rate` that a step has after the warm-up, see Learning rate"""
    lora: Optional[Lora]
    """low-rank adapters: each linear layer W x that `target_modules` names becomes W x + (`alpha` / `rank`) B A x"""
    loss_block_bytes: Optional[int]
    """for `compiler: full`: about how many bytes of logits the fused loss makes at once (at least 256 rows, at most
    2^31 elements)"""
    loss_scale: Any
    """fp16 only, and there by default `{}`"""
    master_weights: Optional[str]
    """what the optimizer stores of weights that have 16 bits: `fp32` copies; `remainders`, the 16 bits that bf16 lacks,
    with equal results in half the memory; `none`, so each step rounds to 16 bits"""
    measure_expert_load: Optional[bool]
    """`train` counts how many tokens choose each expert and reports for every step the load of the most loaded rank of
    an expert group relative to the mean (`expert_load`), which `expert_imbalance` should be in a prediction"""
    memory_of: Optional[str]
    """whose memory decides what fits and what `plan` proposes: this engine's, PyTorch's in mixed precision (autocast),
    or that of PyTorch/XLA with the step as one program"""
    micro_batch: Any
    moments_precision: Optional[str]
    """type in which the optimizer stores its moments; they are updated in fp32 and rounded (`moments_rounding`)"""
    moments_rounding: Optional[str]
    """for `moments_precision: bf16`: `nearest`, as in other frameworks, or `stochastic`, whose mean is the moment
    itself"""
    momentum: Optional[float]
    """for `sgd`, and for the matrices of `muon`, where 0.95 is usual"""
    mtp_layers: Optional[int]
    """number of blocks for multi-token prediction, at most 8, see Multi-token prediction"""
    mtp_loss_weight: Optional[float]
    """for `mtp_layers`: weight of the mean of their losses, which is added to the model's own loss (DeepSeek-V3: 0.3 in
    the first two thirds of its tokens, then 0.1; Megatron-LM: `mtp_loss_scaling_factor`)"""
    optimizer: Optional[str]
    """see Optimizers"""
    packing: Optional[bool]
    """a row of `sequence_length` tokens holds several documents: a token attends to its own document only, positions
    begin again with each, and its last token has no target"""
    passes_off: Optional[List[str]]
    """optional passes of the compiler that are left out, by name"""
    precision: Optional[str]
    """type of weights, activations and their gradients; every sum is made in fp32"""
    predicted_positions: Optional[int]
    """`mlm` only"""
    recompute: Any
    """what the backward pass recomputes: `selective` attention with a score matrix in memory, `full` (or `each`) every
    block by itself, `contiguous` all consecutive blocks of a stage together, `group_3` up to three of them"""
    recompute_budget: Optional[float]
    """instead of `recompute`, `recompute_modules` and `recompute_fraction` (both: an error): memory for the activations
    of one micro-batch on one virtual stage"""
    recompute_fraction: Optional[float]
    """share of the blocks that `recompute` works on, evenly spread"""
    recompute_modules: Optional[List[str]]
    """instead of `recompute` (both: an error): the modules of blocks that are recomputed, each by itself"""
    rematerialize_rows: Optional[bool]
    """for `compiler: full`: norms and activation functions are recomputed in the backward pass if their inputs are
    saved anyway"""
    router_bias_update_rate: Optional[float]
    """for models whose routers add a bias to the scores for the choice only (`docs/models.md`): by how much an expert's
    bias changes after each step"""
    seed: Optional[int]
    """of the initial values, of dropout and of random rounding"""
    sequence_length: Any
    steps: Any
    warmup_steps: Any
    weight_decay: Any


class Cluster(Answer):
    """The part `cluster` of an answer."""

    machine: str
    count: int
    """hosts"""


class FrameworkMemory(Answer):
    """The part `framework_memory` of an answer."""

    peak_memory_bytes: int
    memory_limit_bytes: int


class Price(Answer):
    """The part `price` of an answer."""

    kind: str
    """the row of the price list"""
    region: str
    usd_per_hour: float
    """of one host"""
    as_of: str
    """date"""
    source: str
    stale: bool
    """older than 90 days"""


class Loading(Answer):
    """The part `loading` of an answer."""

    read_s: float
    """of each step, by a host from its storage"""
    decode_s: float
    """of each step, by the workers of a rank"""
    is_bottleneck: bool
    """one of them is longer than the step"""
    workers_needed: int
    """of each rank, so that decoding keeps up"""


class Plan(Answer):
    """The part `plans` of an answer."""

    _parts = {"parallelism": Parallelism, "training": Training, "cluster": Cluster, "framework_memory": FrameworkMemory,
              "price": Price, "loading": Loading}
    plan: str
    """in short: p4 t2 d2 mb2"""
    parallelism: Parallelism
    training: Training
    cluster: Cluster
    gpus: int
    step_time_s: float
    step_time_interval_s: Optional[List[float]]
    """between its two ends eight in ten steps would lie"""
    tokens_per_s: float
    peak_memory_bytes: int
    framework_memory: Optional[FrameworkMemory]
    """what the framework takes that training.memory_of names"""
    usd_per_hour: Optional[float]
    """of all hosts"""
    usd_per_million_tokens: Optional[float]
    mfu: float
    bubble_fraction: float
    exposed_communication_s: float
    goodput: Optional[float]
    """where hosts fail"""
    total_tokens: float
    """of the whole job"""
    total_time_s: float
    start_s: float
    """of it, until hosts are there and have read weights; 0: own hosts, or no length is given"""
    total_usd: Optional[float]
    total_idle_usd: Optional[float]
    """of it, for hours of a block after the run"""
    price: Optional[Price]
    """of a host"""
    frameworks: List[str]
    loading: Optional[Loading]
    """where the job says what a sample costs"""
    pareto: bool
    """no other plan beats it in both time and money"""


class Elsewhere(Answer):
    """The part `elsewhere` of an answer."""

    framework: str
    """a usual one that can run none of the plans shown"""
    plan: Optional[str]
    """its best plan on the first one's cluster; null: none"""
    step_time_s: Optional[float]
    reason: Optional[str]
    """of most rejected plans, if there is none"""
    slower: Optional[float]
    """share by which its step is longer than the first's"""


class NearBatch(Answer):
    """The part `near_batch` of an answer."""

    global_batch: int
    """sequences"""
    faster: float
    """share by which it trains more tokens a second"""


class Rejected(Answer):
    """The part `rejected` of an answer."""

    reason: str
    """why plans were not simulated"""
    count: int
    cause: str
    """slower, memory, limit (deadline or budget) or rule"""


class ClosestMiss(Answer):
    """The part `closest_miss` of an answer."""

    _parts = {"cluster": Cluster, "parallelism": Parallelism}
    cluster: Cluster
    parallelism: Parallelism
    peak_memory_bytes: int
    memory_limit_bytes: float


class Plans(Answer):
    """What `plan` found: the plans, best first, and why others were rejected."""

    _rows = "plans"
    _parts = {"plans": Plan, "elsewhere": Elsewhere, "near_batch": NearBatch, "rejected": Rejected, "closest_miss":
              ClosestMiss}
    search_wall_s: float
    """that the search took"""
    candidates_enumerated: int
    """plans"""
    candidates_simulated: int
    """of them"""
    proven_gap: Optional[float]
    """no plan is better than the first by a larger share"""
    memory_margin: float
    """share of a GPU's memory that is left free"""
    plans: List[Plan]
    elsewhere: List[Elsewhere]
    near_batch: Optional[NearBatch]
    """a global batch near the job's that is faster"""
    opened: List[str]
    rejected: List[Rejected]
    closest_miss: Optional[ClosestMiss]
    """the plan that needs least more memory than there is"""


class PeakTensor(Answer):
    """The part `peak_tensors` of an answer."""

    name: str
    """tensors at the peak, largest first; equal ones are one"""
    class_: str
    bytes: int
    """of all of them"""
    count: int


class StageMemory(Answer):
    """The part `memory` of an answer."""

    _parts = {"peak_tensors": PeakTensor}
    stage: int
    peak_bytes: int
    """of a GPU of this stage"""
    library_bytes: int
    """what libraries take beside the plan"""
    parameters_bytes: int
    """at the peak, of this class"""
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    workspace_bytes: int
    communication_bytes: int
    snapshot_bytes: int
    """for checkpoints in the background"""
    peak_tensors: List[PeakTensor]


class CutTensor(Answer):
    """The part `tensors` of an answer."""

    made_by: str
    """the module and the operation"""
    bytes: int


class Cut(Answer):
    """The part `cuts` of an answer."""

    _parts = {"tensors": CutTensor}
    from_stage: int
    """what a stage hands to the next one, of one micro-batch"""
    from_chunk: int
    to_stage: int
    to_chunk: int
    bytes: int
    tensors: List[CutTensor]


class StageTimes(Answer):
    """The part `stages` of an answer."""

    stage: int
    """parts of a stage's step; they sum to step_time_s"""
    compute_s: float
    launch_s: float
    """kernels wait for the host"""
    exposed_s: Dict[str, float]
    bubble_s: float
    idle_s: float


class WholeRun(Answer):
    """The part `whole_run` of an answer."""

    tokens: float
    time_s: float
    start_s: float
    """of it, until hosts are there and have read weights; 0: own hosts, or no length is given"""
    usd: Optional[float]
    idle_usd: Optional[float]
    """of it, for hours of a block after the run"""
    block_days: Optional[int]
    """of capacity blocks"""


class Cause(Answer):
    """The part `causes` of an answer."""

    cause: str
    failures: float
    """in a run, in the mean"""
    time_s: float
    """that they cost"""


class TimeShares(Answer):
    """The part `shares` of an answer."""

    steps: float
    lost: float
    """work that is done again"""
    checkpoints: float
    restarts: float
    waiting: float
    """for hosts"""


class SpareWorth(Answer):
    """The part `spare_worth` of an answer."""

    spares: int
    wall_s: float
    usd: Optional[float]


class Spread(Answer):
    """The part `usd` of an answer."""

    p10: float
    p50: float
    p90: float
    mean: float


class Risk(Answer):
    """The part `risk` of an answer."""

    _parts = {"causes": Cause, "shares": TimeShares, "spare_worth": SpareWorth, "usd": Spread, "wall_s": Spread}
    steps: float
    runs: int
    """that were played"""
    finishes: bool
    """the keys below are there if it does"""
    every_steps: int
    """between checkpoints"""
    causes: Optional[List[Cause]]
    failures: Optional[float]
    """in a run, in the mean"""
    idle_usd: Optional[float]
    shares: Optional[TimeShares]
    """of the time"""
    spare_worth: Optional[SpareWorth]
    """what spare hosts save"""
    usd: Optional[Spread]
    """the same of its cost"""
    wall_s: Optional[Spread]
    """time of a run"""


class Prediction(Answer):
    """What a training step takes: time, memory, cost."""

    _parts = {"framework_memory": FrameworkMemory, "memory": StageMemory, "cuts": Cut, "stages": StageTimes, "price":
              Price, "whole_run": WholeRun, "risk": Risk, "loading": Loading, "parallelism": Parallelism, "training":
              Training}
    name: str
    """of the job"""
    machine: str
    """of the cluster"""
    count: int
    """hosts"""
    step_time_s: float
    """predicted time of a step"""
    step_time_interval_s: Optional[List[float]]
    """between its two ends eight in ten steps would lie"""
    calibration: str
    """where the constants of the machine's profile are from"""
    steps: int
    """steps"""
    total_time_s: float
    """of these steps"""
    sequences_per_s: float
    tokens_per_s: float
    model_flops_per_s_per_gpu: float
    """of the model's products and attention, without recomputation; causal attention counts whole"""
    mfu: float
    """these as a share of the GPU's peak"""
    bubble_fraction: float
    """share of the step that stages are idle in the pipeline"""
    exposed_communication_s: float
    """communication that no computation hides"""
    fits: bool
    """in memory"""
    memory_limit_bytes: float
    """of a GPU"""
    peak_memory_bytes: int
    """of the fullest stage"""
    framework_memory: Optional[FrameworkMemory]
    """what the framework takes that training.memory_of names"""
    memory: List[StageMemory]
    host_memory_bytes: int
    """that offloading takes of a host"""
    host_memory_limit_bytes: float
    cuts: List[Cut]
    stages: List[StageTimes]
    usd_per_hour: Optional[float]
    """of all hosts"""
    usd_per_million_tokens: Optional[float]
    price: Optional[Price]
    """of a host"""
    goodput: Optional[float]
    """share of the time that steps take, where hosts fail"""
    checkpoint_interval_s: Optional[float]
    """of the job"""
    checkpoint_write_s: Optional[float]
    best_goodput: Optional[float]
    """with the best interval"""
    best_checkpoint_interval_s: Optional[float]
    cluster_mean_time_between_failures_s: Optional[float]
    whole_run: Optional[WholeRun]
    """without failures, where the job says how long it is"""
    risk: Optional[Risk]
    """the whole run where hosts fail"""
    loading: Optional[Loading]
    """where the job says what a sample costs (data.decode_s, ...)"""
    parallelism: Parallelism
    """the plan, with every choice made"""
    training: Training
    instructions: int
    """that were replayed"""
    simulation_wall_s: float
    """that the replay took"""


class RungMiss(Answer):
    """The part `closest_miss` of an answer."""

    peak_memory_bytes: int
    memory_limit_bytes: float


class GroupLoad(Answer):
    """The part `communication` of an answer."""

    group: str
    bytes: float
    """that a rank sends in a step"""
    time_ps: int
    exposed_ps: int
    """of it, that nothing hides"""
    link: str
    """the slowest on its way"""
    link_bytes_per_s: float


class RungBatch(Answer):
    """The part `largest` of an answer."""

    micro_batch: int
    global_batch: int
    """with as many micro-batches"""
    learning_rate_linear: float
    """in proportion to the batch"""
    learning_rate_square_root: float
    """to its square root"""


class Rung(Answer):
    """The part `rungs` of an answer."""

    _parts = {"closest_miss": RungMiss, "communication": GroupLoad, "largest": RungBatch, "loading": Loading,
              "parallelism": Parallelism, "price": Price, "training": Training}
    machine: str
    """from one GPU to the most hosts of the job"""
    count: int
    """hosts"""
    processes_per_host: int
    gpus: int
    added_efficiency: Optional[float]
    """of the GPUs that this rung adds"""
    closest_miss: Optional[RungMiss]
    """the plan that needs least"""
    communication: Optional[List[GroupLoad]]
    efficiency: Optional[float]
    """tokens/s per GPU against the first rung's"""
    frameworks: Optional[List[str]]
    goodput: Optional[float]
    """where hosts fail"""
    largest: Optional[RungBatch]
    """batch that fits"""
    loading: Optional[Loading]
    """where the job says what a sample costs"""
    memory_limit_bytes: Optional[float]
    """of a GPU"""
    mfu: Optional[float]
    opened: Optional[List[str]]
    parallelism: Optional[Parallelism]
    parts_ps: Optional[Dict[str, int]]
    peak_memory_bytes: Optional[int]
    plan: Optional[str]
    """in short: p4 t2 d2 mb2"""
    price: Optional[Price]
    """of a host"""
    reason: Optional[str]
    """why there is no plan; where there is one, the keys from `plan` on are there instead"""
    start_s: Optional[float]
    """of it, as plans[].start_s of `plan`"""
    step_time_interval_s: Optional[List[float]]
    """between its two ends eight in ten steps would lie"""
    step_time_s: Optional[float]
    tokens_per_s: Optional[float]
    total_idle_usd: Optional[float]
    """of it, for hours of a block after the run"""
    total_time_s: Optional[float]
    total_tokens: Optional[float]
    """of the whole job"""
    total_usd: Optional[float]
    training: Optional[Training]
    usd_per_hour: Optional[float]
    """of all hosts"""
    usd_per_million_tokens: Optional[float]


class Ladder(Answer):
    """The part `ladders` of an answer."""

    _parts = {"rungs": Rung}
    machine: str
    """one ladder for each machine"""
    stop: Optional[int]
    """the rung to rent, from 0; null: nothing fits"""
    reason: str
    """why there"""
    rungs: List[Rung]


class Choice(Answer):
    """The part `best` of an answer."""

    _parts = {"elsewhere": Elsewhere, "near_batch": NearBatch, "risk": Risk}
    machine: str
    count: int
    """hosts"""
    processes_per_host: int
    reason: str
    """why this many"""
    useful_global_batch: Optional[float]
    """that learns best from the job's tokens"""
    elsewhere: List[Elsewhere]
    near_batch: Optional[NearBatch]
    """a global batch near the job's that is faster"""
    risk: Optional[Risk]
    """the whole run where hosts fail"""
    command: str
    """that plans it and goes on from there"""


class Advice(Answer):
    """What each size of cluster brings, and where to stop."""

    _rows = "ladders.rungs"
    _parts = {"ladders": Ladder, "best": Choice}
    name: str
    """of the job"""
    ladders: List[Ladder]
    best: Optional[Choice]
    """the ladder whose plan is best; null: nothing fits"""
    budget_usd: Optional[float]
    """the limit of a job, as it was read"""
    deadline_s: Optional[float]
    """the limit of a job, as it was read"""
    shortfall: Optional[str]
    """of a job: if nothing fits, by how much, and what would do"""


class ScalePoint(Answer):
    """The part `points` of an answer."""

    _parts = {"parallelism": Parallelism}
    machine: str
    """one point for each number of hosts"""
    count: int
    """hosts"""
    gpus: int
    tokens_per_s: float
    efficiency: float
    """tokens/s per GPU against the first point's"""
    usd_per_million_tokens: Optional[float]
    step_time_s: float
    goodput: Optional[float]
    """where hosts fail"""
    parallelism: Parallelism
    frameworks: List[str]


class Gap(Answer):
    """The part `gaps` of an answer."""

    machine: str
    """where there is no plan"""
    count: int
    reason: str


class Scaling(Answer):
    """Throughput, efficiency and cost over more and more GPUs."""

    _rows = "points"
    _parts = {"points": ScalePoint, "gaps": Gap}
    points: List[ScalePoint]
    gaps: List[Gap]


class End(Answer):
    """The part `low` of an answer."""

    value: str
    time_s: Optional[float]
    """null: not legal"""
    usd: Optional[float]
    tokens: Optional[float]


class SensitivityInput(Answer):
    """The part `inputs` of an answer."""

    _parts = {"low": End, "high": End}
    input: str
    """what is changed, alone"""
    low: End
    high: End
    width: float
    """between the answers at both ends"""


class Sensitivity(Answer):
    """Which inputs move time or cost most."""

    _rows = "inputs"
    _parts = {"inputs": SensitivityInput, "parallelism": Parallelism, "training": Training}
    name: str
    """of the job"""
    machine: str
    count: int
    """hosts"""
    answer: str
    """what inputs are ranked by: usd, tokens or time_s"""
    time_s: float
    """of the whole job, or of a step where the job does not say how many"""
    tokens: float
    usd: Optional[float]
    inputs: List[SensitivityInput]
    parallelism: Optional[Parallelism]
    """of a job; a recorded step has no plan"""
    training: Optional[Training]


class Part(Answer):
    """The part `parts` of an answer."""

    cause: str
    """they sum to step_time_ps"""
    time_ps: int


class MeasuredCommunication(Answer):
    """The part `communication` of an answer."""

    kind: str
    """beside a profile of PyTorch: between ranks"""
    time_ps: int
    exposed_ps: int
    """of it, that nothing covers"""


class MeasuredKernel(Answer):
    """The part `kernels` of an answer."""

    name: str
    """of a profile: the 20 longest"""
    kind: str
    time_ps: int
    runs: float
    """in a step"""


class Side(Answer):
    """The part `from` of an answer."""

    _parts = {"parts": Part, "communication": MeasuredCommunication, "kernels": MeasuredKernel, "parallelism":
              Parallelism, "training": Training}
    name: str
    """of the job"""
    machine: str
    count: int
    """hosts"""
    step_time_ps: int
    """in picoseconds"""
    tokens_per_s: float
    stage: int
    """whose times these are: the one that is busy longest"""
    parts: List[Part]
    communication: Optional[List[MeasuredCommunication]]
    fits: Optional[bool]
    """into the memory of each GPU; not said beside a profile"""
    kernels: Optional[List[MeasuredKernel]]
    parallelism: Optional[Parallelism]
    """of a job; a recorded step has no plan"""
    steps: Optional[int]
    """of a profile: those that were averaged"""
    trace: Optional[str]
    """of a profile: what was read"""
    training: Optional[Training]


class Change(Answer):
    """The part `changes` of an answer."""

    cause: str
    """they sum to change_ps"""
    from_ps: int
    to_ps: int
    change_ps: int


class Kind(Answer):
    """The part `kinds` of an answer."""

    kind: str
    predicted_runs: int
    """in a step; kernels are joined where runs agree"""
    measured_runs: int
    predicted_ps: int
    measured_ps: int


class JoinedKernel(Answer):
    """The part `kernels` of an answer."""

    name: str
    """the 20 whose time is most off, by operation"""
    kind: str
    runs: int
    """in a step"""
    predicted_ps: int
    """of all runs"""
    measured_ps: int


class Joined(Answer):
    """The part `joined` of an answer."""

    _parts = {"kinds": Kind, "kernels": JoinedKernel}
    kinds: List[Kind]
    kernels: List[JoinedKernel]


class Explanation(Answer):
    """Why a step takes longer than another."""

    _rows = "changes"
    _parts = {"from": Side, "to": Side, "changes": Change, "joined": Joined}
    from_: Side
    """the first job, or the predicted step"""
    to: Side
    """the second job, or the measured step"""
    change_ps: int
    """of the step, in picoseconds; below 0: faster"""
    changes: List[Change]
    joined: Optional[Joined]
    """beside a recorded step: its kernels and the measured ones, in order"""


class Measurement(Answer):
    """The part `rows` of an answer."""

    id: str
    """a measurement: of a step, of a collective or of a largest batch"""
    source: str
    """the file"""
    column: Optional[str]
    """native or compiled"""
    fits: Optional[bool]
    full_max_batch: Optional[int]
    """by level full of the training compiler"""
    machine: Optional[str]
    measured_max_batch: Optional[int]
    measured_peak_memory_bytes: Optional[float]
    measured_step_time_s: Optional[float]
    measured_time_s: Optional[float]
    model: Optional[str]
    """of a largest batch"""
    predicted_interval_s: Optional[List[float]]
    """between its two ends eight in ten steps would lie"""
    predicted_max_batch: Optional[int]
    predicted_peak_memory_bytes: Optional[float]
    predicted_step_time_s: Optional[float]
    predicted_time_s: Optional[float]
    """of a collective"""


class Errors(Answer):
    """The part `sources` of an answer."""

    source: str
    """the file"""
    rows: int
    mape: float
    """mean of the errors' sizes, as a share of what was measured"""
    median_ape: float
    p90_ape: float
    """nine rows in ten are better"""
    bias: float
    """mean of the errors; below 0: predicted too fast"""
    constant_mfu: Optional[float]
    """the simplest predictor: the median of the measured ones"""
    constant_mfu_mape: Optional[float]
    """its error"""
    inside_interval: Optional[float]
    """share of rows within the predicted interval"""
    pairs_in_order: Optional[float]
    """share of pairs of plans that are put in the right order"""
    regret: Optional[float]
    """how much slower the plan is that was predicted to be fastest"""


class MachineErrors(Answer):
    """The part `machines` of an answer."""

    machine: str
    rows: int
    mape: float
    """mean of the errors' sizes, as a share of what was measured"""
    median_ape: float
    p90_ape: float
    """nine rows in ten are better"""
    bias: float
    """mean of the errors; below 0: predicted too fast"""
    constant_mfu: Optional[float]
    """the simplest predictor: the median of the measured ones"""
    constant_mfu_mape: Optional[float]
    """its error"""
    inside_interval: Optional[float]
    """share of rows within the predicted interval"""
    pairs_in_order: Optional[float]
    """share of pairs of plans that are put in the right order"""
    regret: Optional[float]
    """how much slower the plan is that was predicted to be fastest"""


class ClusterErrors(Answer):
    """The part `collectives_from_1_MiB` of an answer."""

    cluster: str
    rows: int
    mape: float
    """mean of the errors' sizes, as a share of what was measured"""
    median_ape: float
    p90_ape: float
    """nine rows in ten are better"""
    bias: float
    """mean of the errors; below 0: predicted too fast"""
    constant_mfu: Optional[float]
    """the simplest predictor: the median of the measured ones"""
    constant_mfu_mape: Optional[float]
    """its error"""
    inside_interval: Optional[float]
    """share of rows within the predicted interval"""
    pairs_in_order: Optional[float]
    """share of pairs of plans that are put in the right order"""
    regret: Optional[float]
    """how much slower the plan is that was predicted to be fastest"""


class ScalingPair(Answer):
    """The part `scaling` of an answer."""

    source: str
    """pairs of steps on one GPU and on several"""
    ids: List[str]
    gpus: List[int]
    predicted_efficiency: float
    measured_efficiency: float
    within_3_points: bool


class FitCheck(Answer):
    """The part `fits` of an answer."""

    source: str
    largest_batches: int
    """rows that were tried to their limit"""
    measured_steps: int
    said_not_to_fit: int
    """of them"""


class SkippedRow(Answer):
    """The part `skipped` of an answer."""

    id: str
    """rows that are not predicted"""
    reason: str


class Validation(Answer):
    """Predicted against published measurements."""

    _rows = "rows"
    _parts = {"rows": Measurement, "sources": Errors, "overall": Errors, "machines": MachineErrors, "peak_memory":
              Errors, "collectives_from_1_MiB": ClusterErrors, "collectives_below_1_MiB": ClusterErrors, "scaling":
              ScalingPair, "fits": FitCheck, "skipped": SkippedRow}
    rows: List[Measurement]
    sources: List[Errors]
    overall: Errors
    """of all steps"""
    machines: List[MachineErrors]
    peak_memory: List[Errors]
    collectives_from_1_MiB: List[ClusterErrors]
    collectives_below_1_MiB: List[ClusterErrors]
    scaling: List[ScalingPair]
    fits: List[FitCheck]
    skipped: List[SkippedRow]


class LevelMemory(Answer):
    """The part `memory` of an answer."""

    library_bytes: int
    """of the fullest stage, at its peak"""
    parameters_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    workspace_bytes: int
    communication_bytes: int
    snapshot_bytes: int


class Pass(Answer):
    """The part `passes` of an answer."""

    name: str
    """on the graph of one micro-batch, in this order"""
    wall_s: float
    """that the pass took"""
    kernels: int
    """after the pass"""
    kernels_saved: int
    """below 0: added"""
    bytes_moved: float
    bytes_moved_saved: float
    kept_activation_bytes: float
    """for the backward pass"""
    kept_activation_bytes_saved: float
    compute_before_s: float
    compute_after_s: float


class LargestBatch(Answer):
    """The part `largest` of an answer."""

    micro_batch: int
    global_batch: int
    """with as many micro-batches"""
    peak_memory_bytes: int
    learning_rate_linear: float
    """in proportion to the batch"""
    learning_rate_square_root: float
    """to its square root"""


class Level(Answer):
    """The part `levels` of an answer."""

    _parts = {"memory": LevelMemory, "passes": Pass, "largest": LargestBatch}
    compiler: str
    """none, fused, full"""
    kernels: int
    """of a step"""
    bytes_moved: float
    """that they read and write"""
    step_time_s: float
    measured_step_time_s: Optional[float]
    """with measure"""
    fits: bool
    """in memory"""
    peak_memory_bytes: int
    memory: LevelMemory
    compile_wall_s: float
    """that compiling took"""
    passes: List[Pass]
    largest: Optional[LargestBatch]
    """null: none fits"""


class FrameworkBatch(Answer):
    """The part `frameworks` of an answer."""

    _parts = {"largest": LargestBatch}
    memory_of: str
    """as training.memory_of names it"""
    largest: Optional[LargestBatch]


class Compilation(Answer):
    """What the levels of the training compiler save."""

    _rows = "levels"
    _parts = {"parallelism": Parallelism, "training": Training, "levels": Level, "frameworks": FrameworkBatch}
    name: str
    """of the job"""
    machine: str
    count: int
    """hosts"""
    parallelism: Parallelism
    training: Training
    levels: List[Level]
    frameworks: List[FrameworkBatch]


class FittedRun(Answer):
    """The part `runs` of an answer."""

    id: str
    measured_step_time_s: float
    before_step_time_s: float
    """predicted with the profile as it was"""
    after_step_time_s: float
    """with the new one"""


class FittedConstant(Answer):
    """The part `constants` of an answer."""

    name: str
    """those that the runs say something of"""
    before: float
    after: float
    spread_before: float
    """uncertain by this share"""
    spread_after: float


class Interval(Answer):
    """The part `interval_before` of an answer."""

    low: float
    """eight in ten measured steps lie between these multiples of the predicted ones"""
    high: float
    rows: int
    """measured steps that it is of"""


class Fit(Answer):
    """A machine's profile moved towards measured steps."""

    _rows = "runs"
    _parts = {"runs": FittedRun, "constants": FittedConstant, "interval_before": Interval, "interval_after": Interval}
    machine: str
    profile: str
    """the file that was written"""
    runs: List[FittedRun]
    constants: List[FittedConstant]
    interval_before: Interval
    interval_after: Interval


class Setting(Answer):
    """The part `settings` of an answer."""

    setting: str
    """each that was read"""
    value: Any
    place: str
    """file and line, or the key"""
    fate: str
    """acts, without meaning here, or unknown"""
    reason: Optional[str]
    """why it has no meaning here"""


class Understood(Answer):
    """The part `understood` of an answer."""

    what: str
    """what a person looks at first: model, batch, degrees, ..."""
    value: str
    from_: str
    """the setting; empty: the framework's default"""


class Imported(Answer):
    """A job, from another framework's settings."""

    _rows = "settings"
    _parts = {"settings": Setting, "understood": Understood}
    framework: str
    """whose settings were read"""
    job: Dict[str, Any]
    """the job"""
    settings: List[Setting]
    understood: List[Understood]
    remarks: List[str]
    wrote: Optional[str]
    """the job file, if one is named"""


class Exported(Answer):
    """A plan, as another framework's settings."""

    _parts = {"cluster": Cluster}
    framework: str
    plan: str
    """in short: p4 t2 d2 mb2"""
    cluster: Cluster
    step_time_s: float
    """predicted time of a step"""
    peak_memory_bytes: int
    """of the fullest stage"""
    warnings: List[str]
    files: List[str]
    contents: Optional[Dict[str, str]]


class Evaluation(Answer):
    """The loss of trained weights on files."""

    weights: str
    """the checkpoint, or the folder with model.safetensors"""
    files: List[str]
    sequences: int
    tokens: int
    """targets whose loss counts"""
    loss: float
    """mean over the targets"""
    complete: bool
    """false: stopped on request; the loss is of the sequences before"""
    evaluate_wall_s: float
    perplexity: Optional[float]
    """e^loss, of a head over the vocabulary"""
    step: Optional[int]
    """of the checkpoint"""


class Generation(Answer):
    """What trained weights go on with from a prompt."""

    weights: str
    """the checkpoint, or the folder with model.safetensors"""
    prompt_tokens: List[int]
    tokens: List[int]
    ended: bool
    """the last token ends a text"""
    step: Optional[int]
    """of the checkpoint"""
    text: Optional[str]
    """of these tokens; none without a tokenizer"""


class MachineFact(Answer):
    """The part `machine_facts` of an answer."""

    name: str
    gpus: int
    """of a host"""
    gpu: str
    memory_bytes: float
    """of one GPU"""
    usd_per_hour: Optional[float]
    """of a host, on demand"""


class Stack(Answer):
    """The part `stacks` of an answer."""

    name: str
    """generations of software"""
    title: str
    since: str
    """year and month"""
    until: str
    """empty: today"""
    software: str
    kernels: Dict[str, float]
    source: str


class Names(Answer):
    """Names that a job may use."""

    _parts = {"machine_facts": MachineFact, "stacks": Stack}
    attention: Optional[List[str]]
    communicators: Optional[List[str]]
    compiler: Optional[List[str]]
    frameworks: Optional[List[str]]
    machine_facts: Optional[List[MachineFact]]
    machines: Optional[List[str]]
    models: Optional[List[str]]
    operations: Optional[List[str]]
    optimizers: Optional[List[str]]
    parts: Optional[List[str]]
    passes: Optional[List[str]]
    placements: Optional[List[str]]
    recompute: Optional[List[str]]
    schedules: Optional[List[str]]
    stacks: Optional[List[Stack]]
