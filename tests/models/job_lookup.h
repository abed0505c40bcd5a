// Gives the facts about the few machines that tests of the job file know.
#pragma once

#include <string>

#include "models/core/error.h"
#include "models/job/job.h"

namespace meshwright::tests {

inline MachineFacts lookup_for_tests(const std::string& machine) {
  MachineFacts facts;
  facts.gpus = 8;
  if (machine == "p4d.24xlarge" || machine == "p5.48xlarge" || machine == "p6-b200.48xlarge") {
    facts.has_bf16 = facts.has_tf32 = true;
    facts.has_fp4 = machine == "p6-b200.48xlarge";
    facts.has_fp8 = machine == "p5.48xlarge" || facts.has_fp4;
    facts.has_flash3 = machine == "p5.48xlarge";
    facts.has_cudnn_attention = facts.has_fp8;
  } else if (machine == "local") {
    facts.gpus = 2;  // cores
    facts.is_cpu = true;
  } else if (machine != "p3.16xlarge") {
    throw InputError("unknown machine '" + machine +
                     "'; known: local, p3.16xlarge, p4d.24xlarge, "
                     "p5.48xlarge and p6-b200.48xlarge");
  }
  facts.has_efa = facts.has_bf16;
  facts.has_nvlink = !facts.is_cpu;
  return facts;
}

}  // namespace meshwright::tests
