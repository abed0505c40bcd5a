#include "models/program/peak_tensors.h"

#include <algorithm>
#include <map>
#include <utility>

#include "models/program/slots_in_use.h"

namespace meshwright::program {

namespace {

using Buffers = std::vector<const Buffer*>;

// Returns the buffers that are live at the first time at which the sum of live bytes is highest.
Buffers live_at_fullest(const Buffers& buffers) {
  std::map<int, std::int64_t> changes;  // changes of the live bytes, by time
  for (const Buffer* each : buffers) {
    changes[each->first] += each->bytes;
    changes[each->last + 1] -= each->bytes;
  }
  std::int64_t bytes = 0, most = -1;
  int fullest = 0;
  for (const auto& [moment, change] : changes) {
    bytes += change;
    if (bytes > most) most = bytes, fullest = moment;
  }
  Buffers live;
  for (const Buffer* each : buffers)
    if (each->first <= fullest && fullest <= each->last) live.push_back(each);
  return live;
}

std::int64_t last_use_in(const Buffers& buffers) {
  std::int64_t end = 0;
  for (const Buffer* each : buffers) end = std::max(end, each->offset + each->bytes);
  return end;
}

std::int64_t bytes_of(const Buffers& buffers) {
  std::int64_t bytes = 0;
  for (const Buffer* each : buffers) bytes += each->bytes;
  return bytes;
}

// Returns, for each chunk, how many of its micro-batches are in slots at the first moment at which
// the slots that the chunk shares with other chunks hold most bytes.
std::vector<int> slots_when_fullest(const Program& program, const std::vector<Buffers>& of_slot) {
  const std::vector<std::vector<int>> times = slots_in_use(program);
  std::vector<int> slots(of_slot.size(), 0);
  if (times.empty()) return slots;
  std::vector<std::int64_t> slot_bytes;  // of one micro-batch, by chunk
  std::map<int, std::vector<int>> pools;
  for (int chunk = 0; chunk < static_cast<int>(slots.size()); ++chunk) {
    slot_bytes.push_back(bytes_of(of_slot[chunk]));
    pools[program.memory.pool_of(chunk)].push_back(chunk);
  }
  for (const auto& [pool, chunks] : pools) {
    const auto held = [&](const std::vector<int>& time) {
      std::int64_t bytes = 0;
      for (const int chunk : chunks) bytes += time[chunk] * slot_bytes[chunk];
      return bytes;
    };
    const std::vector<int>& fullest = *std::ranges::max_element(times, {}, held);
    for (const int chunk : chunks) slots[chunk] = fullest[chunk];
  }
  return slots;
}

// Returns "transformer.h.*.mlp" for "transformer.h.12.mlp".
std::string without_numbers(const std::string& path) {
  std::string result;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    if (begin > 0) result += '.';
    result += number ? "*" : part;
    begin = end + 1;
  }
  return result;
}

// Returns for each buffer the module of the first instruction that writes it, or -1 if none does.
std::vector<int> makers(const Program& program) {
  std::vector<int> module_of(program.memory.buffers.size(), -1);
  for (const Body& body : program.bodies)
    for (const Instruction& instruction : body.instructions)
      for (const Operand& output : instruction.outputs)
        if (int& module = module_of[output.buffer]; module < 0) module = instruction.module;
  return module_of;
}

bool is_state(MemoryClass cls) {
  return cls == MemoryClass::parameters || cls == MemoryClass::gradients ||
         cls == MemoryClass::optimizer || cls == MemoryClass::snapshot;
}

}  // namespace

std::vector<PeakTensor> peak_tensors(const Program& program) {
  const MemoryPlan& memory = program.memory;
  std::vector<std::pair<const Buffer*, int>> held;  // with the number of its copies
  std::vector<Buffers> of_slot(memory.slots.size()), of_body(program.bodies.size());
  for (const Buffer& each : memory.buffers) switch (each.region) {
      case Region::persistent:
        held.emplace_back(&each, 1);
        break;
      case Region::owned:
        if (each.owner.includes(program.fullest)) held.emplace_back(&each, 1);
        break;
      case Region::window:
        held.emplace_back(&each, memory.windows[each.chunk].slots);
        break;
      case Region::slot:
        of_slot[each.chunk].push_back(&each);
        break;
      case Region::task:
        if (each.body >= 0) of_body[each.body].push_back(&each);
        break;
      case Region::host:
        break;
    }
  for (Buffers& of_chunk : of_slot) of_chunk = live_at_fullest(of_chunk);
  const std::vector<int> in_slots = slots_when_fullest(program, of_slot);
  for (std::size_t chunk = 0; chunk < of_slot.size(); ++chunk)
    for (const Buffer* each : of_slot[chunk]) held.emplace_back(each, in_slots[chunk]);
  if (const auto fullest = std::ranges::max_element(of_body, {}, last_use_in);
      fullest != of_body.end())
    for (const Buffer* each : live_at_fullest(*fullest)) held.emplace_back(each, 1);

  const std::vector<int> module_of = makers(program);
  std::map<std::pair<std::string, MemoryClass>, PeakTensor> by_name;
  for (const auto& [each, copies] : held) {
    if (each->bytes == 0 || copies == 0) continue;
    const int module = module_of[each - memory.buffers.data()];
    std::string name = each->name;
    if (module >= 0 && !is_state(each->cls))
      name = without_numbers((*program.modules)[module]) + " " + name;
    PeakTensor& all = by_name[{name, each->cls}];
    all.name = name;
    all.cls = each->cls;
    all.bytes += each->bytes * copies;
    all.count += copies;
  }
  std::vector<PeakTensor> tensors;
  for (auto& [key, all] : by_name) tensors.push_back(std::move(all));
  std::ranges::stable_sort(tensors, std::greater{}, &PeakTensor::bytes);
  return tensors;
}

}  // namespace meshwright::program
