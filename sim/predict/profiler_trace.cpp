#include "sim/predict/profiler_trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>

#include "models/core/error.h"
#include "models/core/json.h"
#include "models/core/open_file.h"

namespace meshwright::sim {

namespace {

// Return whether the category (`cat`) of an event means work of the device, a launch by the host,
// or any event of this profiler. Categories with capitals are from PyTorch 1.8.
bool is_on_device(const std::string& category) {
  static const std::set<std::string> words = {"kernel", "gpu_memcpy", "gpu_memset",
                                              "Kernel", "Memcpy",     "Memset"};
  return words.contains(category);
}
bool is_launch(const std::string& category) {
  static const std::set<std::string> words = {"cuda_runtime", "cuda_driver", "Runtime"};
  return words.contains(category);
}
bool is_of_profiler(const std::string& category) {
  static const std::set<std::string> words = {"cpu_op", "user_annotation", "gpu_user_annotation",
                                              "python_function", "Operator"};
  return words.contains(category) || is_on_device(category) || is_launch(category);
}

constexpr SimTime longest_together = 1'000'000'000'000'000'000;

constexpr std::string_view step_prefix = "ProfilerStep#";

// Reads the file in one pass and drops each event after use, because traces have millions of
// events.
class ProfilerReader {
 public:
  explicit ProfilerReader(const std::string& path) : path_(path) {}

  std::optional<ProfilerTrace> read() {
    if (std::filesystem::is_directory(path_))
      throw InputError(path_ + ": is a folder; give a trace of one rank in it");
    if (!std::filesystem::exists(path_)) throw InputError(path_ + ": no such trace");
    check_readable(path_);
    std::ifstream file(path_, std::ios::binary);
    if (!file) throw InputError(path_ + ": cannot be opened for reading");
    if (file.peek() == std::ifstream::traits_type::eof()) throw InputError(path_ + ": is empty");
    if (file.peek() == 0x1f)  // files of gzip begin with this byte
      throw InputError(path_ + ": is compressed; unpack it first: gunzip " + path_);
    parse(file);
    if (!of_profiler_) return std::nullopt;
    check();
    return finished();
  }

 private:
  struct Launched {
    ProfiledKernel kernel;
    std::optional<std::int64_t> correlation;
  };

  void parse(std::ifstream& file) {
    try {
      const json rest =
          json::parse(file, [this](int depth, json::parse_event_t event, json& value) {
            return keeps(depth, event, value);
          });
      if (rest.is_object()) read_rest(rest);
    } catch (const json::parse_error& error) {
      file.clear();
      file.seekg(0, std::ios::end);
      const auto bytes = static_cast<std::size_t>(file.tellg());
      if (error.byte > bytes)
        throw InputError(path_ + ": is cut off: its JSON does not end; export the trace again");
      throw InputError(path_ + ": is no JSON at byte " + std::to_string(error.byte) +
                       "; give what PyTorch's export_chrome_trace or `train --trace FILE` wrote");
    } catch (const json::exception&) {
      throw InputError(path_ + ": /traceEvents/" + std::to_string(index_) +
                       ": holds a number that is too large");
    }
  }

  bool keeps(int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key && depth == 1) in_events_ = value == "traceEvents";
    if (!in_events_ || depth != 2 || event != json::parse_event_t::object_end) return true;
    add(value);
    ++index_;
    return false;
  }

  void read_rest(const json& rest) {
    for (const char* key : {"deviceProperties", "distributedInfo", "schemaVersion"})
      of_profiler_ = of_profiler_ || rest.contains(key);
    const auto info = rest.find("distributedInfo");
    if (info == rest.end() || !info->is_object()) return;
    trace_.rank = whole_number(*info, "rank");
    trace_.world_size = whole_number(*info, "world_size");
  }

  std::optional<int> whole_number(const json& info, const char* key) const {
    const auto found = info.find(key);
    if (found == info.end()) return std::nullopt;
    if (!found->is_number_integer() || *found < 0 || *found > std::numeric_limits<int>::max())
      throw InputError(path_ + ": /distributedInfo/" + key + ": is no number of ranks");
    return found->get<int>();
  }

  void add(const json& event) {
    if (text_of(event, "ph") != "X") return;
    const std::string category = text_of(event, "cat");
    of_profiler_ = of_profiler_ || is_of_profiler(category);
    const std::string name = text_of(event, "name");
    if (is_on_device(category))
      add_kernel(event, name);
    else if (is_launch(category))
      add_launch(event, name);
    else if (name.starts_with(step_prefix) && category != "gpu_user_annotation")
      add_step(event, name);
  }

  void add_kernel(const json& event, const std::string& name) {
    const auto [begin, end] = times_of(event, name);
    together_ += end - begin;
    if (together_ > longest_together)
      throw InputError(path_ + ": its kernels last longer than eleven days together");
    Launched launched{{name, KernelKind::other, begin, end, begin}, {}};
    json device = event.contains("pid") ? event["pid"] : json();
    if (const auto args = event.find("args"); args != event.end() && args->is_object()) {
      if (args->contains("device")) device = (*args)["device"];
      launched.correlation = correlation_of(*args);
      launched.kernel.kind = kind_of_kernel(name, text_of(*args, "Collective name"));
    } else {
      launched.kernel.kind = kind_of_kernel(name);
    }
    devices_.insert(device.dump(-1, ' ', false, json::error_handler_t::replace));
    kernels_.push_back(std::move(launched));
  }

  void add_launch(const json& event, const std::string& name) {
    const auto args = event.find("args");
    if (args == event.end() || !args->is_object()) return;
    if (const auto correlation = correlation_of(*args))
      launches_.emplace(*correlation, times_of(event, name).first);
  }

  void add_step(const json& event, const std::string& name) {
    ProfiledStep step;
    const char* first = name.data() + step_prefix.size();
    const char* last = name.data() + name.size();
    if (std::from_chars(first, last, step.number).ptr != last) return;
    std::tie(step.begin, step.end) = times_of(event, name);
    trace_.steps.push_back(step);
  }

  static std::string text_of(const json& value, const char* key) {
    const auto found = value.find(key);
    return found != value.end() && found->is_string() ? found->get<std::string>() : "";
  }

  static std::optional<std::int64_t> correlation_of(const json& args) {
    const auto found = args.find("correlation");
    if (found == args.end() || !found->is_number_integer()) return std::nullopt;
    return found->get<std::int64_t>();
  }

  std::pair<SimTime, SimTime> times_of(const json& event, const std::string& name) {
    const double begin = microseconds(event, "ts", name), lasts = microseconds(event, "dur", name);
    if (!origin_) origin_ = begin;
    const SimTime from = picoseconds(begin - *origin_, name);
    if (lasts < 0) wrong(name, "its 'dur' is negative");
    return {from, from + picoseconds(lasts, name)};
  }

  double microseconds(const json& event, const char* key, const std::string& name) const {
    const auto found = event.find(key);
    if (found == event.end() || !found->is_number())
      wrong(name, std::string("has no number '") + key + "'");
    return found->get<double>();
  }

  SimTime picoseconds(double microseconds, const std::string& name) const {
    constexpr double longest = 1e12;
    if (!(std::abs(microseconds) < longest))
      wrong(name, "lies or lasts more than eleven days beyond the trace's first event");
    return std::llround(microseconds * 1000) * 1000;
  }

  [[noreturn]] void wrong(const std::string& name, const std::string& what) const {
    throw InputError(path_ + ": /traceEvents/" + std::to_string(index_) + ": '" +
                     name.substr(0, 60) + "': " + what);
  }

  void check() const {
    if (kernels_.empty())
      throw InputError(path_ +
                       ": holds no kernel of a GPU, so there is nothing to compare; profile with "
                       "ProfilerActivity.CUDA");
    if (devices_.size() > 1)
      throw InputError(path_ + ": holds kernels of " + std::to_string(devices_.size()) +
                       " devices; give the trace of one rank, which has one");
  }

  ProfilerTrace finished() {
    for (Launched& each : kernels_) {
      if (each.correlation)
        if (const auto launch = launches_.find(*each.correlation); launch != launches_.end())
          each.kernel.launched = launch->second;
      trace_.end = std::max(trace_.end, each.kernel.end);
      trace_.kernels.push_back(std::move(each.kernel));
    }
    for (const ProfiledStep& step : trace_.steps) trace_.end = std::max(trace_.end, step.end);
    std::ranges::stable_sort(trace_.kernels, {}, &ProfiledKernel::begin);
    std::ranges::stable_sort(trace_.steps, {}, &ProfiledStep::begin);
    return std::move(trace_);
  }

  const std::string& path_;
  bool of_profiler_ = false, in_events_ = false;
  std::size_t index_ = 0;  // index of the event in the file
  std::optional<double> origin_;
  SimTime together_ = 0;  // total time of the kernels so far
  std::vector<Launched> kernels_;
  std::map<std::int64_t, SimTime> launches_;  // launch times by correlation number
  std::set<std::string> devices_;
  ProfilerTrace trace_;
};

}  // namespace

std::optional<ProfilerTrace> read_profiler_trace(const std::string& path) {
  return ProfilerReader(path).read();
}

}  // namespace meshwright::sim
