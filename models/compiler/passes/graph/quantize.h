// Precision fp8: the linear layers of blocks multiply in 8 bits. Their inputs and weights are
// rounded to e4m3, the gradients of their outputs to e5m2 (with scales for blocks of elements: to
// e4m3, as Transformer Engine does). `fp8_recipe` says how scales are found. Gradients of weights
// read the rounded input. So the rounded input is saved, and the input itself only if another
// operation reads it.
//
// Precision nvfp4: 4 bits, e2m1, as in NVIDIA's recipe ("Pretraining Large Language Models with
// NVFP4", arXiv 2509.25149; Transformer Engine's NVFP4BlockScaling). Each 16 elements along the
// summed dimension have a scale in e4m3 (of weights, each 16 x 16), and a tensor has one in fp32,
// from its largest element. Gradients are rounded stochastically, with random bits from the run's
// seed, the module and the element's index. Both factors of a weight gradient's matmul first go
// through a Hadamard transform of 16 elements with random signs. Transposed copies are rounded
// together with the tensors, those of weights too, and both are kept.
//
// These stay in bf16: the embedding, attention between its two linear layers, routers, experts
// unless the plan says otherwise, layers outside of blocks (the head), blocks that the plan names
// (`first_layers_in_bf16`, `last_layers_in_bf16`), and layers with a size that is no multiple of 16
// or of the length of a scale's block. The slots of an expert are such a size. The inputs of all
// experts of a layer are stacked in one tensor, and so are their weights. Such a tensor has one
// scale unless scales are for blocks. Each of its matrices is transposed by itself.
//
// Weights are rounded once a step, when it begins, and the copy in 8 bits is kept in addition to
// the weights in bf16. With mxfp8 a transposed copy is kept too. Otherwise, if the device needs a
// transposed weight, it is transposed in the backward. If ZeRO 3 shards the weights, they are
// rounded whenever they are used, in the forward and again in the backward, because gathers are in
// bf16. (Frameworks round a rank's shard before they gather it, so predictions above level `none`
// count no kernel for it.) With `fp8_gathers`, the ranks round their shards of weights that nothing
// else reads before they are gathered, once a step (models/compiler/lower/rounded_weights.h). The
// bits are equal, and messages have half the size.
//
// If ranks hold shares of the rows and a tensor has one scale, rounded rows are gathered, provided
// that only 8-bit matmuls read them. The scale is then that of the group's largest element. The
// ranks of a tensor group round their own parts of a weight, and of activations that are split like
// it, with scales of their own. Other degrees therefore round differently. Delayed scales come from
// the largest elements that all ranks of the stage saw in earlier steps.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/device_facts.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph quantize(Graph graph, const Plan& plan, const DeviceFacts& device);

}  // namespace meshwright::compiler
