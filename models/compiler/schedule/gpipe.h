// The order of GPipe. Other schedules use it in rounds if the bound on active micro-batches is low.
#pragma once

#include "models/compiler/schedule/schedule.h"

namespace meshwright::compiler {

StageOrder gpipe(PipelineShape shape, int stage);

}  // namespace meshwright::compiler
