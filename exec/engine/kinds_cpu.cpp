// The table of engines of a program without GPUs.
#include "exec/engine/engine.h"

namespace meshwright::exec {

namespace {
constexpr EngineKind kinds[] = {{"cpu", nullptr, nullptr, make_cpu_engine}};
}  // namespace

std::span<const EngineKind> engine_kinds() { return kinds; }

}  // namespace meshwright::exec
