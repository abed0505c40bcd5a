// The order of GPipe, which others fall back to in rounds.
#pragma once

#include "models/compiler/schedule/schedule.h"

namespace meshwright {

StageOrder gpipe(PipelineShape shape, int stage);

}  // namespace meshwright
