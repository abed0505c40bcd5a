// The functions behind the rows of schedule_kinds(); one file each.
#pragma once

#include "models/schedule/schedule.h"

namespace meshwright {

StageOrder gpipe(PipelineShape shape, int stage);
StageOrder one_f_one_b(PipelineShape shape, int stage);
StageOrder interleaved(PipelineShape shape, int stage);
StageOrder zero_bubble(PipelineShape shape, int stage);

}  // namespace meshwright
