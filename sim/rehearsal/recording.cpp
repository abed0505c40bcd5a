#include "sim/rehearsal/recording.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>

#include "models/architectures/captured/kernel_words.h"
#include "models/core/enum_words.h"
#include "models/core/json.h"

namespace meshwright::sim {

const std::vector<std::string>& recorded_collective_names() {
  static const std::vector<std::string> names = words_up_to<RecordedCollective::receive>(
      {"all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "all-to-all", "send",
       "receive"});
  return names;
}

const std::vector<std::string>& step_phase_names() {
  static const std::vector<std::string> names =
      words_up_to<StepPhase::optimizer>({"forward", "backward", "optimizer"});
  return names;
}

namespace {

constexpr int format = 1;
constexpr int most_ranks = 1 << 20;
constexpr int most_streams = 1 << 12;

template <class Enum>
Enum word(Fields& fields, std::string_view key, std::string_view what,
          const std::vector<std::string>& known) {
  return static_cast<Enum>(choose(fields, key, what, fields.required<std::string>(key), known));
}

// Returns the name of a kernel as in its source and in profilers, or the symbol itself if it cannot
// be demangled.
std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : symbol;
}

class RecordingReader {
 public:
  explicit RecordingReader(Fields file) : file_(std::move(file)) {}

  Recording read() {
    read_head();
    read_memory();
    read_step();
    to_.operations = file_.required<std::vector<std::string>>("operations");
    if (file_.has("modules")) to_.modules = file_.required<std::vector<std::string>>("modules");
    to_.symbols = file_.required<std::vector<std::string>>("symbols");
    for (std::string& symbol : to_.symbols) symbol = demangled(symbol);
    for (Fields& each : file_.objects("kernels")) read_kernel(each);
    read_groups();
    to_.streams = within(file_, "streams", 1, most_streams);
    for (Fields& each : file_.objects("events")) read_event(each);
    if (to_.events.empty()) file_.fail("events", "is empty; a step has at least one");
    if (file_.has("others")) read_others();
    file_.done();
    return std::move(to_);
  }

 private:
  static int within(Fields& fields, std::string_view key, int least, int most) {
    const int value = fields.required<int>(key);
    if (value < least || value > most)
      fields.fail(key, std::to_string(value) + " is out of range; use " + std::to_string(least) +
                           " to " + std::to_string(most));
    return value;
  }

  // Reads an index into a list of the file, which has `count` entries.
  static int index(Fields& fields, std::string_view key, std::string_view what, std::size_t count) {
    const int value = fields.required<int>(key);
    if (value < 0 || static_cast<std::size_t>(value) >= count)
      fields.fail(key, "there is no " + std::string(what) + " " + std::to_string(value) +
                           "; the file has " + std::to_string(count));
    return value;
  }

  static int index_if_there(Fields& fields, std::string_view key, std::string_view what,
                            std::size_t count) {
    return fields.has(key) ? index(fields, key, what, count) : -1;
  }

  static std::int64_t size(Fields& fields, std::string_view key) {
    const auto value = fields.required<std::int64_t>(key);
    if (value < 0 || value > most_bytes) fields.fail(key, "must be from 0 to 10^15");
    return value;
  }

  static double number(Fields& fields, std::string_view key, double most) {
    const auto value = fields.required<double>(key);
    if (!(value >= 0 && value <= most))
      fields.fail(key, "must be a number from 0 to " + json(most).dump());
    return value;
  }

  void read_head() {
    if (const int version = file_.required<int>("format"); version != format)
      file_.fail("format", "format " + std::to_string(version) +
                               " is not known, this version reads format 1; rehearse the script "
                               "again");
    to_.script = file_.required<std::string>("script");
    if (file_.has("versions")) {
      Fields versions = file_.object("versions");
      for (const std::string& name : versions.keys())
        to_.versions[name] = versions.required<std::string>(name);
    }
    if (file_.has("steps")) file_.object("steps");
    if (file_.has("notes")) to_.notes = file_.required<std::vector<std::string>>("notes");
    to_.machine = file_.required<std::string>("machine");
    to_.ranks = within(file_, "ranks", 1, most_ranks);
    to_.per_host = std::min(to_.ranks, within(file_, "per_host", 1, most_ranks));
    if (to_.ranks % to_.per_host != 0)
      file_.fail("per_host", "does not divide " + std::to_string(to_.ranks) + " ranks");
    to_.rank = within(file_, "rank", 0, to_.ranks - 1);
    to_.step_host_s = number(file_, "step_host_s", longest_s);
  }

  void read_others() {
    std::set<int> ranks{to_.rank};
    std::size_t place = 0;
    for (Fields& each : file_.objects("others")) {
      const std::string key = "others/" + std::to_string(place++);
      if (each.has("others")) each.fail("others", "has others of its own; list them all in one");
      Recording other = RecordingReader(std::move(each)).read();
      if (other.ranks != to_.ranks || other.per_host != to_.per_host)
        file_.fail(key, "is of a run with another number of ranks");
      if (!ranks.insert(other.rank).second)
        file_.fail(key, "rank " + std::to_string(other.rank) + " is there twice");
      to_.others.push_back(std::move(other));
    }
  }

  void read_memory() {
    Fields memory = file_.object("memory");
    to_.memory = {size(memory, "peak_allocated_bytes"), size(memory, "peak_reserved_bytes"),
                  size(memory, "allocated_before_step_bytes"), size(memory, "capacity_bytes"),
                  size(memory, "refused_bytes")};
    memory.done();
  }

  // Reads the values of the whole step that may be missing: batch, bytes of states, and phases.
  void read_step() {
    if (file_.has("batch")) {
      Fields batch = file_.object("batch");
      to_.batch = {size(batch, "samples"), size(batch, "tokens"),
                   within(batch, "replicas", 1, to_.ranks)};
      if (to_.batch->samples == 0) batch.fail("samples", "must be 1 or more");
      batch.done();
    }
    if (file_.has("state_bytes")) to_.state_bytes = size(file_, "state_bytes");
    if (!file_.has("phases")) return;
    to_.phases.emplace();
    for (Fields& row : file_.objects("phases")) {
      const auto phase = word<StepPhase>(row, "phase", "phase", step_phase_names());
      (*to_.phases)[static_cast<std::size_t>(phase)] = {size(row, "peak_allocated_bytes"),
                                                        size(row, "kept_bytes")};
      row.done();
    }
  }

  void read_kernel(Fields& fields) {
    const auto dimension = [&](std::string_view key, std::int64_t absent) {
      return fields.has(key) ? size(fields, key) : absent;
    };
    RecordedKernel recorded;
    Kernel& kernel = recorded.kernel;
    kernel.kind = read_kernel_kind(fields);
    if (fields.has("op")) fields.required<std::string>("op");
    kernel.m = dimension("m", 0);
    kernel.n = dimension("n", 0);
    kernel.k = dimension("k", 0);
    kernel.batch = std::max<std::int64_t>(1, dimension("batch", 1));
    recorded.flops = fields.has("flops") ? number(fields, "flops", 1e24) : 0;
    kernel.flops = recorded.flops * (fields.optional<bool>("causal", false) ? 0.5 : 1);
    kernel.bytes = fields.has("bytes") ? number(fields, "bytes", most_bytes) : 0;
    kernel.precision = read_kernel_precision(fields);
    kernel.backward = fields.optional<bool>("backward", false);
    fields.done();
    to_.kernels.push_back(recorded);
  }

  void read_groups() {
    const json& groups = file_.raw("groups");
    if (!groups.is_array()) file_.fail("groups", "expected a list of lists of ranks");
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const std::string key = "groups/" + std::to_string(i);
      if (!groups[i].is_array()) file_.fail(key, "expected a list of ranks");
      std::vector<int> group;
      std::set<int> known;
      for (const json& rank : groups[i]) {
        if (!rank.is_number_integer() || rank < 0 || rank >= to_.ranks)
          file_.fail(key,
                     rank.dump() + " is no rank; there are 0 to " + std::to_string(to_.ranks - 1));
        group.push_back(rank.get<int>());
        if (!known.insert(group.back()).second)
          file_.fail(key, "rank " + rank.dump() + " is there twice");
      }
      if (!known.contains(to_.rank))
        file_.fail(key, "the recorded rank " + std::to_string(to_.rank) + " is not in it");
      to_.groups.push_back(std::move(group));
    }
  }

  void read_event(Fields& fields) {
    static const std::vector<std::string> kinds = words_up_to<Recorded::host_waits>(
        {"kernel", "collective", "copy", "set", "record", "wait", "host-waits"});
    RecordedEvent event;
    event.at_s = number(fields, "at", longest_s * 1e6) * 1e-6;
    fields.optional<int>("thread", 0);
    event.graphed = fields.optional<bool>("graphed", false);
    event.op = index_if_there(fields, "op", "operation", to_.operations.size());
    event.module = index_if_there(fields, "module", "module", to_.modules.size());
    event.what = word<Recorded>(fields, "what", "event", kinds);
    if (event.what == Recorded::host_waits)
      read_host_wait(fields, event);
    else
      event.stream = stream(fields);
    switch (event.what) {
      case Recorded::kernel:
        event.kernel = index_if_there(fields, "kernel", "kernel", to_.kernels.size());
        event.symbol = index_if_there(fields, "symbol", "symbol", to_.symbols.size());
        event.recomputed = fields.optional<bool>("recomputed", false);
        break;
      case Recorded::collective:
        read_collective(fields, event);
        break;
      case Recorded::copy:
        read_copy(fields, event);
        break;
      case Recorded::set:
        event.bytes = size(fields, "bytes");
        break;
      case Recorded::record:
      case Recorded::wait:
        event.event = fields.required<std::int64_t>("event");
        break;
      case Recorded::host_waits:
        break;
    }
    fields.done();
    to_.events.push_back(event);
  }

  int stream(Fields& fields) const {
    return index(fields, "stream", "stream", static_cast<std::size_t>(to_.streams));
  }

  void read_collective(Fields& fields, RecordedEvent& event) const {
    event.collective =
        word<RecordedCollective>(fields, "name", "collective", recorded_collective_names());
    event.bytes = size(fields, "bytes");
    event.group = index(fields, "group", "group", to_.groups.size());
    event.together = fields.optional<int>("together", 0);
    const bool message = event.collective >= RecordedCollective::send;
    const auto members = to_.groups[static_cast<std::size_t>(event.group)].size();
    if (message)
      event.peer = index(fields, "peer", "member", members);
    else
      fields.optional<int>("peer", 0);
  }

  static void read_copy(Fields& fields, RecordedEvent& event) {
    static const std::vector<std::string> directions =
        words_up_to<CopyDirection::on_device>({"to-device", "to-host", "on-device"});
    event.bytes = size(fields, "bytes");
    event.direction = word<CopyDirection>(fields, "direction", "direction", directions);
    event.waits = fields.optional<bool>("waits", false);
  }

  void read_host_wait(Fields& fields, RecordedEvent& event) const {
    static const std::vector<std::string> what =
        words_up_to<HostWait::event>({"device", "stream", "event"});
    event.host_waits_for = word<HostWait>(fields, "for", "wait", what);
    if (fields.has("stream") || event.host_waits_for == HostWait::stream)
      event.stream = stream(fields);
    if (fields.has("event") || event.host_waits_for == HostWait::event)
      event.event = fields.required<std::int64_t>("event");
  }

  static constexpr double longest_s = 1e4;  // longest step, in seconds
  static constexpr std::int64_t most_bytes = 1'000'000'000'000'000;

  Fields file_;
  Recording to_;
};

}  // namespace

bool is_recording(std::string_view text) {
  return text.starts_with('{') && text.find("\"step_host_s\"") != text.npos &&
         text.find("\"events\"") != text.npos;
}

Recording read_recording(Fields file) { return RecordingReader(std::move(file)).read(); }

}  // namespace meshwright::sim
