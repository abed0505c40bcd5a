#include "exec/engine/engine.h"

#include "exec/backends/cpu/cpu_backend.h"

namespace meshwright::exec {

const EngineKind* engine_kind(std::string_view name) {
  for (const EngineKind& row : engine_kinds())
    if (row.name == name) return &row;
  return nullptr;
}

Engine make_cpu_engine(const EngineOptions& options, World&) {
  return {make_cpu_backend(options.threads), nullptr};
}

}  // namespace meshwright::exec
