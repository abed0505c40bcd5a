// Precision fp8: what the linear layers of blocks multiply has 8 bits. Their inputs and weights are
// rounded to e4m3, the gradients of their outputs to e5m2 (by blocks: to e4m3, as Transformer
// Engine does), with scales as `fp8_recipe` says; gradients of weights read the rounded input, so
// that is what is kept, and the input itself only where something else reads it.
//
// Precision nvfp4: 4 bits, e2m1, as NVIDIA's recipe has it ("Pretraining Large Language Models with
// NVFP4", arXiv 2509.25149; Transformer Engine's NVFP4BlockScaling). 16 elements along the sums
// have a scale in e4m3, of weights 16 x 16, and a tensor one in fp32, of its largest element.
// Gradients are rounded at random, with bits of the run's seed, the module and the element's place;
// what gradients of weights sum over goes through a Hadamard transform of 16 with random signs
// first, in both factors, and is rounded at random there too where it is a gradient. All that is
// transposed is rounded with the rest, weights too: both are kept.
//
// In bf16 stay the embedding, attention between its two linear layers, routers, experts unless the
// plan says otherwise, what is outside of blocks (the head), blocks that the plan names
// (`first_layers_in_bf16`, `last_layers_in_bf16`), and layers with a size that is no multiple of 16
// (blocks: of their length). An expert's slots are such a size. What all experts of
// a layer read, and their weights, are matrices one below the other: one tensor, of one scale where
// it is not in blocks; transposed is each of them.
//
// Weights are rounded once a step, when it begins, and one copy in 8 bits is kept beside that in
// bf16; what the device wants transposed is transposed in the backward. Under ZeRO 3 they are
// rounded whenever they have been gathered, for the forward and again for the backward: gathers are
// in bf16. (Frameworks round a rank's share before, so that costs no kernel.) With `fp8_gathers`
// weights that nothing else reads are rounded before they are gathered, by those who hold a share,
// once a step (models/compiler/lower/rounded_weights.h): the same bits, in half the messages. Where
// ranks hold shares of the rows and a tensor has one scale, rounded rows are gathered, with the
// scale that the group's largest element asks for. The ranks of a tensor group round their own
// parts of a weight, and of what is cut as it is, with scales of their own: other degrees round
// otherwise. Delayed scales are of the largest elements that all ranks of the stage saw in earlier
// steps.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/device_facts.h"
#include "models/program/graph/graph.h"

namespace meshwright {

Graph quantize(Graph graph, const Plan& plan, const DeviceFacts& device);

}  // namespace meshwright
