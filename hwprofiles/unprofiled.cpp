#include "hwprofiles/unprofiled.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <vector>

#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "models/core/letters.h"

namespace meshwright::hwprofiles {

namespace {

// An instance of another cloud, by the beginning of its name in letters and digits, and the machine
// with a profile that is nearest to it, mostly one with the same GPUs.
struct OtherCloud {
  std::string_view name, cloud, nearest;
};
// From the clouds' own lists of instances (cloud.google.com/compute/docs/gpus,
// learn.microsoft.com/azure/virtual-machines/sizes, docs.oracle.com, lambda.ai), as of 2026.
constexpr OtherCloud other_clouds[] = {{"a2highgpu", "Google Cloud", "p4d.24xlarge"},
                                       {"a2megagpu", "Google Cloud", "dgx-a100-40gb"},
                                       {"a2ultragpu", "Google Cloud", "p4de.24xlarge"},
                                       {"a3highgpu", "Google Cloud", "p5.48xlarge"},
                                       {"a3megagpu", "Google Cloud", "p5.48xlarge"},
                                       {"a3edgegpu", "Google Cloud", "p5.48xlarge"},
                                       {"a3ultragpu", "Google Cloud", "p5en.48xlarge"},
                                       {"a4highgpu", "Google Cloud", "p6-b200.48xlarge"},
                                       {"a4xhighgpu", "Google Cloud", "gb200-nvl72"},
                                       {"g2standard", "Google Cloud", "g6.48xlarge"},
                                       {"nd96isrh100v5", "Azure", "p5.48xlarge"},
                                       {"nd96isrh200v5", "Azure", "p5en.48xlarge"},
                                       {"nd96asrv4", "Azure", "p4d.24xlarge"},
                                       {"nd96asra100v4", "Azure", "p4d.24xlarge"},
                                       {"nd96amsra100v4", "Azure", "p4de.24xlarge"},
                                       {"nd40rsv2", "Azure", "p3dn.24xlarge"},
                                       {"nd128isrndrgb200v6", "Azure", "gb200-nvl72"},
                                       {"nd128isrgb300v6", "Azure", "gb300-nvl72"},
                                       {"nc40adsh100v5", "Azure", "p5.4xlarge"},
                                       {"nc80adish100v5", "Azure", "p5.4xlarge"},
                                       {"nc24adsa100v4", "Azure", "p4de.24xlarge"},
                                       {"nc96adsa100v4", "Azure", "p4de.24xlarge"},
                                       {"bmgpuh1008", "Oracle Cloud", "p5.48xlarge"},
                                       {"bmgpuh2008", "Oracle Cloud", "p5en.48xlarge"},
                                       {"bmgpub2008", "Oracle Cloud", "p6-b200.48xlarge"},
                                       {"bmgpua100v28", "Oracle Cloud", "p4de.24xlarge"},
                                       {"bmgpu48", "Oracle Cloud", "p4d.24xlarge"},
                                       {"gpu8xh100sxm5", "Lambda", "p5.48xlarge"},
                                       {"gpu8xa10080gbsxm4", "Lambda", "p4de.24xlarge"},
                                       {"gpu8xa100", "Lambda", "p4d.24xlarge"},
                                       {"gpu8xb200", "Lambda", "p6-b200.48xlarge"}};

struct CloudName {
  std::string_view word, cloud;
};
constexpr CloudName cloud_names[] = {{"gcp", "Google Cloud"},    {"gce", "Google Cloud"},
                                     {"google", "Google Cloud"}, {"azure", "Azure"},
                                     {"microsoft", "Azure"},     {"oracle", "Oracle Cloud"},
                                     {"oci", "Oracle Cloud"},    {"lambda", "Lambda"}};

// An accelerator that is no GPU of NVIDIA, by the beginning of its name in letters and digits.
struct OtherAccelerator {
  std::string_view begin, is;
};
constexpr OtherAccelerator other_accelerators[] = {{"tpu", "a TPU"},
                                                   {"v5p", "a TPU"},
                                                   {"v5e", "a TPU"},
                                                   {"v48", "a TPU"},
                                                   {"v6e", "a TPU"},
                                                   {"mi2", "a GPU of AMD"},
                                                   {"mi3", "a GPU of AMD"},
                                                   {"amd", "a GPU of AMD"},
                                                   {"instinct", "a GPU of AMD"},
                                                   {"trn", "an AWS Trainium"},
                                                   {"trainium", "an AWS Trainium"},
                                                   {"inf1", "an AWS Inferentia"},
                                                   {"inf2", "an AWS Inferentia"},
                                                   {"gaudi", "an Intel Gaudi"},
                                                   {"hpu", "an Intel Gaudi"},
                                                   {"dl1", "an Intel Gaudi"},
                                                   {"ascend", "a Huawei Ascend"},
                                                   {"cerebras", "of Cerebras"},
                                                   {"m1", "a GPU of Apple"},
                                                   {"m2", "a GPU of Apple"},
                                                   {"m3", "a GPU of Apple"},
                                                   {"m4", "a GPU of Apple"}};

// The beginnings, in letters and digits, of the names of NVIDIA GPUs without a profile here. They
// are compared only with words that mean no known machine.
constexpr std::array<std::string_view, 31> other_gpus = {
    "rtx",  "gtx",  "geforce", "quadro", "titan", "4090",  "4080",  "4070",  "3090", "3080", "3070",
    "5090", "5080", "2080",    "1080",   "a6000", "a5000", "a4000", "a30",   "a40",  "a800", "a2",
    "a16",  "l40",  "l20",     "k80",    "p100",  "p40",   "m60",   "gh200", "b100"};

// Returns a list of the GPUs that known machines have, without their memory, such as "A100, A10G
// and H100".
std::string known_gpus() {
  std::vector<std::string> gpus;
  for (const std::string& name : list_machines()) {
    if (name == "local") continue;
    const std::string gpu = load_machine(name).gpu.name;
    const std::string first = gpu.starts_with("RTX") ? gpu : gpu.substr(0, gpu.find('-'));
    if (std::ranges::find(gpus, first) == gpus.end()) gpus.push_back(first);
  }
  std::ranges::sort(gpus);
  return list_of(gpus, "and");
}

// Returns the name of a GPU that `letters` contain, such as H100, or "" if they contain none.
std::string gpu_in(const std::string& letters) {
  for (const std::string_view gpu :
       {"gb300", "gb200", "b300", "b200", "h200", "h100", "a100", "v100", "l40s", "a10g"})
    if (letters.find(gpu) != std::string::npos) {
      std::string name(gpu);
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
      return name;
    }
  return "";
}

}  // namespace

void refuse_other_cloud(const std::string& words, const std::string& named,
                        const std::string& cloud) {
  std::string name = letters_of(named);
  if (name.starts_with("standard")) name.erase(0, 8);
  for (const OtherCloud& row : other_clouds) {
    const bool is_begun = !cloud.empty() && name.size() >= 4 && row.name.starts_with(name);
    if (!name.starts_with(row.name) && !is_begun) continue;
    const Machine machine = load_machine(std::string(row.nearest));
    throw InputError(
        fmt::format("'{}' is an instance of {}, which has no profile here; the nearest machine is "
                    "{} ({} x {}), "
                    "whose network and prices are its own",
                    words, row.cloud, row.nearest, machine.gpus, machine.gpu.name));
  }
  if (cloud.empty()) return;
  const auto row = std::ranges::find(cloud_names, cloud, &CloudName::word);
  const std::string gpu = gpu_in(name);
  throw InputError(fmt::format(
      "'{}': machines of {} have no profile here; name the GPUs, such as 8x{}", words,
      row == std::end(cloud_names) ? cloud : std::string(row->cloud), gpu.empty() ? "H100" : gpu));
}

void refuse_unprofiled(const std::string& words, const std::string& named, bool is_counted) {
  const std::string name = letters_of(named);
  const std::string gpus = "GPUs that are known: ";
  if (name.empty() || name == "gpu" || name == "gpus" ||
      (name.size() < 4 && name.find_first_not_of("0123456789") == std::string::npos))
    throw InputError(fmt::format("'{}' does not say which GPU; write 8xH100, say. {}{}", words,
                                 gpus, known_gpus()));
  for (const std::string_view word : {"cpu", "localhost", "laptop", "mylaptop", "thiscomputer",
                                      "here", "mycomputer", "mymachine", "thismachine"})
    if (name == word)
      throw InputError(fmt::format("unknown machine '{}'; this computer is called 'local'", words));
  for (const std::string_view word : {"any", "all", "cheapest", "best", "fastest", "anything"})
    if (name == word)
      throw InputError(fmt::format(
          "unknown machine '{}'; 'auto' tries all machines, and 'aws' those of one cloud", words));
  for (const OtherAccelerator& row : other_accelerators)
    if (name.starts_with(row.begin))
      throw InputError(fmt::format("'{}' is {}; machines here have GPUs of NVIDIA. {}{}", words,
                                   row.is, gpus, known_gpus()));
  const bool is_gpu = std::ranges::any_of(
      other_gpus, [&](std::string_view begin) { return name.starts_with(begin); });
  const std::string inside = gpu_in(name);
  const bool is_variant =
      name.find("pcie") != std::string::npos || (!inside.empty() && name.ends_with("nvl"));
  if (is_gpu || is_variant)
    throw InputError(fmt::format(
        "no known machine has '{}'{}; {}{}. `meshwright calibrate` measures a computer that has "
        "other ones",
        named, is_variant && !inside.empty() ? fmt::format(", but with SXM {} has", inside) : "",
        gpus, known_gpus()));
  if (is_counted) throw InputError(unknown_machine(named));
}

std::string unknown_machine(const std::string& name) {
  const std::string without_ml = name.starts_with("ml.") ? name.substr(3) : name;
  const std::vector<std::string> known = list_machines();
  const std::string letters = letters_of(without_ml);
  std::vector<std::string> near;
  for (const std::string& each : known)
    if (letters.size() >= 4 && letters_of(each).find(letters) != std::string::npos)
      near.push_back(each);
  if (near.empty() || near.size() > 4) {
    near.clear();
    std::string longest;  // such as dgx-h100 for "DGX H100 SuperPOD"
    for (const std::string& each : known)
      if (each.size() > longest.size() && letters.starts_with(letters_of(each))) longest = each;
    if (longest.empty()) longest = nearest(without_ml, known);
    std::vector<std::string> all_letters;
    for (const std::string& each : known) all_letters.push_back(letters_of(each));
    const std::string same = longest.empty() ? nearest(letters, all_letters) : "";
    for (const std::string& each : known)
      if (!same.empty() && letters_of(each) == same) longest = each;
    if (!longest.empty()) near = {longest};
  }
  for (std::string& each : near) each = "'" + each + "'";
  return "unknown machine '" + name + "'" +
         (near.empty() ? "; " : "; did you mean " + list_of(near, "or") + "? ") +
         "`meshwright list machines` lists them";
}

}  // namespace meshwright::hwprofiles
