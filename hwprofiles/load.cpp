#include "hwprofiles/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "hwprofiles/blocks.h"
#include "hwprofiles/parts.h"
#include "hwprofiles/unprofiled.h"
#include "models/core/data_files.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"
#include "models/core/quote.h"

namespace meshwright::hwprofiles {

namespace {

constexpr Precision precisions[] = {Precision::fp32, Precision::tf32, Precision::fp16,
                                    Precision::bf16, Precision::fp8,  Precision::nvfp4};

void check_number(const Fields& fields, std::string_view key, double value, Bound bound) {
  const auto [low, high] = limits_of(bound, key);
  if (!(value >= low && value <= high))
    fields.fail(key, fmt::format("{} is out of range; use {} to {}", value, low, high));
  if (bound == Bound::share && value > 1)
    fields.fail(key, "is a share of the peak and must not exceed 1");
  if (bound == Bound::below_one && value >= 1) fields.fail(key, "is a share; use less than 1");
}

double number(Fields& fields, std::string_view key, Bound bound) {
  const auto value = fields.required<double>(key);
  check_number(fields, key, value, bound);
  return value;
}

std::vector<double> numbers(Fields& fields, std::string_view key, std::size_t count, Bound bound) {
  const auto list = fields.required<std::vector<double>>(key);
  if (list.size() != count)
    fields.fail(key, fmt::format("expected {} numbers, found {}", count, list.size()));
  for (const double value : list) check_number(fields, key, value, bound);
  return list;
}

int count(Fields& fields, std::string_view key, int least) {
  const int value = fields.required<int>(key);
  if (value < least) fields.fail(key, "must be at least " + std::to_string(least));
  if (value > most_of_a_count)
    fields.fail(key, "must be at most " + std::to_string(most_of_a_count));
  return value;
}

// Opens a block of the profile and stores its source in the machine. Throws InputError if the
// profile has no such block, or the block has no source.
Fields block(Profile& profile, const std::string& key, Machine& machine) {
  Fields inner = profile.fields.object(key);
  inner = {inner.raw(), profile.file_of[key], inner.pointer()};
  if (!inner.is_string("source"))
    inner.fail("source", "missing; every block of a profile says where its numbers come from");
  machine.sources.emplace_back(key, inner.required<std::string>("source"));
  return inner;
}

EfficiencyCurve curve(Fields& fields, std::string_view key) {
  const json& list = fields.raw(key);
  if (!list.is_array() || list.empty()) fields.fail(key, "expected a list of [size, share] pairs");
  EfficiencyCurve result;
  for (const json& pair : list) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() || !pair[1].is_number())
      fields.fail(key, "expected pairs [size, share], found " + pair.dump());
    result.points.push_back({pair[0].get<double>(), pair[1].get<double>()});
    const EfficiencyCurve::Point& last = result.points.back();
    if (!(last.x >= least_number && last.x <= most_number) || !(last.fraction >= least_number) ||
        last.fraction > 1)
      fields.fail(key, fmt::format("sizes must be {} to {} and shares {} to 1, found {}",
                                   least_number, most_number, least_number, pair.dump()));
    if (result.points.size() > 1 && !(last.x > result.points[result.points.size() - 2].x))
      fields.fail(key, "sizes must grow from pair to pair");
  }
  return result;
}

// Reads one field of a block into its variable.
struct FieldReader {
  Fields& block;
  const BlockField& row;

  void operator()(double* place) const { *place = number(block, row.key, row.bound); }
  void operator()(std::optional<double>* place) const {
    *place = number(block, row.key, row.bound);
  }
  void operator()(int* place) const {
    *place = count(block, row.key, row.bound == Bound::at_least_one ? 1 : 0);
  }
  void operator()(bool* place) const { *place = block.required<bool>(row.key); }
  void operator()(std::string* place) const { *place = block.required<std::string>(row.key); }
  void operator()(EfficiencyCurve* place) const { *place = curve(block, row.key); }
  void operator()(const std::vector<double*>& places) const {
    const std::vector<double> values = numbers(block, row.key, places.size(), row.bound);
    for (std::size_t i = 0; i < places.size(); ++i) *places[i] = values[i];
  }
};

// Reads the given fields of a block. The caller must read the block's other keys.
void read_fields(Fields& block, const BlockFields& rows) {
  for (const BlockField& row : rows)
    if (row.only_with.empty() || block.has(row.only_with))
      std::visit(FieldReader{block, row}, row.place);
}

// Reads a block that may have no other fields than these.
void read_block(Fields block, const BlockFields& rows) {
  read_fields(block, rows);
  block.done();
}

void read_gpu(Fields gpu, Gpu& result) {
  const std::string kind = gpu.required<std::string>("kind");
  result.kind = choose(gpu, "kind", "kind of device", kind, {"gpu", "cpu"}) == 0 ? DeviceKind::gpu
                                                                                 : DeviceKind::cpu;
  Fields peak = gpu.object("peak_flop_per_s");
  for (const Precision precision : precisions)
    if (peak.has(peak_name(precision)))
      result.peak_flop_per_s[static_cast<std::size_t>(precision)] =
          number(peak, peak_name(precision), Bound::rate);
  peak.done();
  if (!result.supports(Precision::fp32))
    peak.fail("fp32", "missing; every device computes in fp32");
  read_block(std::move(gpu), gpu_fields(result));
}

std::vector<ThreadScaling> read_thread_scaling(Fields& efficiency) {
  std::vector<ThreadScaling> result;
  for (Fields& fields : efficiency.objects("thread_scaling")) {
    ThreadScaling scaling;
    scaling.threads = count(fields, "threads", 2);
    if (!result.empty() && scaling.threads <= result.back().threads)
      fields.fail("threads", "must grow from entry to entry");
    scaling.gemm = curve(fields, "gemm");
    scaling.memory_bound = curve(fields, "memory_bound");
    scaling.attention = curve(fields, "attention");
    fields.done();
    result.push_back(std::move(scaling));
  }
  return result;
}

void read_efficiency(Fields efficiency, Gpu& gpu) {
  if (efficiency.has("thread_scaling")) gpu.thread_scaling = read_thread_scaling(efficiency);
  read_fields(efficiency, efficiency_fields(gpu));
  read_block(std::move(efficiency), constant_fields(gpu.kernels));
}

std::vector<std::vector<int>> link_matrix(Fields& fields, std::string_view key, int gpus) {
  const json& rows = fields.raw(key);
  const auto size = static_cast<std::size_t>(gpus);
  const std::string shape = "expected " + std::to_string(gpus) + " rows of " +
                            std::to_string(gpus) + " link counts from 0 to 64";
  std::vector<std::vector<int>> matrix;
  if (!rows.is_array() || rows.size() != size) fields.fail(key, shape);
  for (const json& row : rows) {
    if (!row.is_array() || row.size() != size) fields.fail(key, shape);
    matrix.emplace_back();
    for (const json& links : row) {
      if (!links.is_number_integer() || links < 0 || links > 64) fields.fail(key, shape);
      matrix.back().push_back(links.get<int>());
    }
  }
  for (std::size_t a = 0; a < size; ++a)
    for (std::size_t b = 0; b < size; ++b)
      if (matrix[a][b] != matrix[b][a] || (a == b && matrix[a][b] != 0))
        fields.fail(key, "must be symmetric with zeros on its diagonal");
  return matrix;
}

void read_nvlink(Fields nvlink, Machine& machine) {
  Nvlink& result = machine.nvlink;
  const std::string kind = nvlink.required<std::string>("kind");
  result.kind = static_cast<NvlinkKind>(
      choose(nvlink, "kind", "kind of NVLink", kind, {"none", "matrix", "nvswitch"}));
  if (result.kind != NvlinkKind::none) read_fields(nvlink, nvlink_fields(result));
  if (result.kind == NvlinkKind::matrix)
    result.links_between = link_matrix(nvlink, "links_between", machine.gpus);
  nvlink.done();
}

void check_members(const Fields& fields, std::string_view what, std::vector<int> members,
                   int expected) {
  std::ranges::sort(members);
  bool each_once = static_cast<int>(members.size()) == expected;
  for (int i = 0; each_once && i < expected; ++i) each_once = members[i] == i;
  if (!each_once)
    fields.fail("switches", "must name each of the " + std::to_string(expected) + " " +
                                std::string(what) + " exactly once, counted from 0");
}

void read_pcie(Fields pcie, Machine& machine) {
  Pcie& result = machine.pcie;
  read_fields(pcie, pcie_fields(result));
  std::vector<int> gpus, nics;
  for (Fields& item : pcie.objects("switches")) {
    PcieSwitch one{item.required<std::vector<int>>("gpus"), item.required<std::vector<int>>("nics"),
                   item.required<int>("numa")};
    if (one.numa < 0 || one.numa > 63) item.fail("numa", "must be a node number from 0 to 63");
    item.done();
    gpus.insert(gpus.end(), one.gpus.begin(), one.gpus.end());
    nics.insert(nics.end(), one.nics.begin(), one.nics.end());
    result.switches.push_back(std::move(one));
  }
  check_members(pcie, "GPUs", gpus, machine.gpus);
  check_members(pcie, "NICs", nics, machine.network.nics);
  pcie.done();
}

std::optional<Residuals::Interval> read_interval(Fields& residuals, std::string_view key) {
  if (!residuals.has(key)) return std::nullopt;
  Fields fields = residuals.object(key);
  Residuals::Interval interval;
  read_fields(fields, interval_fields(interval));
  if (interval.low > interval.high) fields.fail("low", "must not exceed high");
  fields.done();
  return interval;
}

Residuals read_residuals(Fields residuals) {
  Residuals result;
  result.one_host = read_interval(residuals, "one_host");
  result.many_hosts = read_interval(residuals, "many_hosts");
  residuals.done();
  return result;
}

// Reads the prices in profiles of version 0.1, which have no region. Later versions keep prices in
// a price list.
Prices read_own_prices(Fields fields, const std::string& machine) {
  Price price;
  price.machine = machine;
  price.source = fields.required<std::string>("source");
  price.as_of = fields.required<std::string>("as_of");
  if (!day_of(price.as_of))
    fields.fail("as_of", fmt::format("'{}' is not a date; write YYYY-MM-DD", price.as_of));
  price.usd_per_hour = number(fields, "on_demand_usd_per_hour", Bound::positive);
  Prices prices = {price};
  if (fields.has("spot_usd_per_hour")) {
    price.kind = PriceKind::spot;
    price.usd_per_hour = number(fields, "spot_usd_per_hour", Bound::positive);
    prices.push_back(price);
  }
  fields.done();
  return prices;
}

Machine read_machine(Fields own) {
  Profile parts = with_parts(std::move(own), parts_folder());
  Fields& profile = parts.fields;
  Machine machine;
  machine.name = profile.required<std::string>("name");
  if (!is_one_line(machine.name))
    profile.fail("name", "holds a control character; use one line of text");
  machine.aliases = profile.optional<std::vector<std::string>>("aliases", {});
  machine.gpus = count(profile, "gpus", 1);
  if (machine.gpus > most_gpus)
    profile.fail("gpus", "at most " + std::to_string(most_gpus) + " per host");
  machine.calibration = static_cast<Calibration>(
      choose(profile, "calibration", "state of calibration",
             profile.required<std::string>("calibration"), calibration_names()));
  machine.concurrent_streams = profile.required<bool>("concurrent_streams");
  read_gpu(block(parts, "gpu", machine), machine.gpu);
  read_efficiency(block(parts, "efficiency", machine), machine.gpu);
  if (machine.gpu.kind == DeviceKind::gpu) {
    read_nvlink(block(parts, "nvlink", machine), machine);
    read_block(block(parts, "network", machine), network_fields(machine.network));
    read_pcie(block(parts, "pcie", machine), machine);
  } else {
    machine.shared_memory.emplace();
    read_block(block(parts, "shared_memory", machine),
               shared_memory_fields(*machine.shared_memory));
  }
  read_block(block(parts, "collectives", machine), collectives_fields(machine));
  read_block(block(parts, "host", machine), host_fields(machine.host));
  read_block(block(parts, "overheads", machine), overheads_fields(machine.overheads));
  if (profile.has("framework")) {
    machine.framework.emplace();
    read_block(block(parts, "framework", machine), framework_fields(*machine.framework));
  }
  if (profile.has("residuals"))
    machine.residuals = read_residuals(block(parts, "residuals", machine));
  machine.prices = prices_of(known_prices(), machine.name);
  if (profile.has("prices") && !profile.raw("prices").is_null()) {
    const Prices rows = read_own_prices(profile.object("prices"), machine.name);
    machine.prices.insert(machine.prices.begin(), rows.begin(), rows.end());
  }
  profile.done();
  return machine;
}

}  // namespace

std::string profiles_folder() {
  const char* given = std::getenv("MESHWRIGHT_MACHINES");
  return given != nullptr ? given : std::string(built_in) + "hwprofiles/machines";
}

Prices known_prices() {
  static std::mutex reading;
  static std::map<std::string, Prices> read;
  const std::string path = parts_folder() + "/prices.json";
  const std::lock_guard lock(reading);
  auto known = read.find(path);
  if (known == read.end())
    known = read.emplace(path, is_data_file(path) ? read_prices(path) : Prices()).first;
  return known->second;
}

std::string parts_folder() { return profiles_folder() + "/.."; }

Machine load_machine_file(const std::string& path) { return read_machine(read_json_file(path)); }

Machine machine_of_text(const std::string& text, const std::string& where) {
  return read_machine({parse_json(text, where), where});
}

std::vector<std::string> list_machines(const std::string& folder) {
  const auto names = json_names(folder);
  if (!names) throw InputError(folder + ": the folder of machine profiles cannot be read");
  return *names;
}

std::optional<Machine> machine_if_known(const std::string& name, const std::string& folder) {
  const std::string wanted = name.starts_with("ml.") ? name.substr(3) : name;
  const std::vector<std::string> names = list_machines(folder);
  if (std::ranges::find(names, wanted) != names.end())
    return load_machine_file(folder + "/" + wanted + ".json");
  for (const std::string& candidate : names) {
    Machine machine = load_machine_file(folder + "/" + candidate + ".json");
    if (std::ranges::find(machine.aliases, wanted) != machine.aliases.end()) return machine;
  }
  return std::nullopt;
}

Machine load_machine(const std::string& name, const std::string& folder) {
  if (const std::optional<Machine> machine = machine_if_known(name, folder)) return *machine;
  throw InputError(unknown_machine(name));
}

}  // namespace meshwright::hwprofiles
