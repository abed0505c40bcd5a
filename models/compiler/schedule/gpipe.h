// The order of GPipe. The interleaved schedules run it in rounds if the bound on active
// micro-batches is too low for their own order.
#pragma once

#include "models/compiler/schedule/schedule.h"

namespace meshwright::compiler {

StageOrder gpipe(PipelineShape shape, int stage);

}  // namespace meshwright::compiler
