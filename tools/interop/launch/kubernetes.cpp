// Writes Kubeflow's objects: TrainJob of Trainer 2.3 (trainer.kubeflow.org/v1alpha1) and PyTorchJob
// of the Training Operator (kubeflow.org/v1). Both give every container PET_* variables, which
// torchrun reads as its own arguments.
#include <fmt/format.h>

#include "models/core/quote.h"
#include "tools/interop/formats/text.h"
#include "tools/interop/launch/parts.h"

namespace meshwright::interop {

using nlohmann::ordered_json;

namespace {

// Escapes `text` for the kubelet, which replaces $(NAME) by the value of a variable and $$ by $.
std::string literal(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char next = at + 1 < text.size() ? text[at + 1] : ' ';
    if (text[at] == '$' && (next == '$' || next == '(')) result += '$';
    result += text[at];
  }
  return result;
}

// Returns the command that runs in a container. It goes through a shell only if a word needs the
// shell's evaluation or the starter is not torchrun.
Words container_command(const Launch& launch) {
  bool needs_shell = starter_of(launch) != Starter::torchrun;
  for (const LaunchWord& word : launch.words) needs_shell |= word.is_expression;
  Words words;
  if (!needs_shell) {
    words = {"torchrun"};
    for (const LaunchWord& word : launch.words) words.push_back(literal(word.text));
    return words;
  }
  std::string line;
  if (starter_of(launch) == Starter::deepspeed && launch.hosts > 1)
    line = fmt::format("seq -f 'host%g' {} | sed 's/$/ slots={}/' > hostfile; ", launch.hosts,
                       launch.gpus_per_host);
  line += "exec";
  if (starter_of(launch) == Starter::torchrun)
    line += " torchrun";
  else
    for (const std::string& word : start_on_host(
             launch, {"\"$PET_NODE_RANK\"", "\"$PET_MASTER_ADDR\"", "\"$PET_MASTER_PORT\""}))
      line += " " + word;
  for (const std::string& word : quoted_words(launch)) line += " " + word;
  return {"/bin/bash", "-c", literal(line)};
}

void add_command(ordered_json& container, const Launch& launch) {
  const Words words = container_command(launch);
  container["command"] = Words{words.front()};
  container["args"] = Words(words.begin() + 1, words.end());
}

void add_environment(ordered_json& container, const Launch& launch) {
  std::map<std::string, std::string> environment = environment_of(launch);
  // EFA would fail to reserve huge pages on nodes that set none aside, so it must not use them.
  if (efa_cards(launch.machine) > 0 && launch.hosts > 1)
    environment.emplace("FI_EFA_USE_HUGE_PAGE", "0");
  for (const auto& [name, value] : environment)
    container["env"].push_back({{"name", name}, {"value", literal(value)}});
}

ordered_json resources_of(const Launch& launch) {
  ordered_json counts = {{"nvidia.com/gpu", std::to_string(launch.gpus_per_host)}};
  if (const int cards = efa_cards(launch.machine); cards > 0 && launch.hosts > 1)
    counts["vpc.amazonaws.com/efa"] = std::to_string(cards);
  return {{"limits", counts}, {"requests", counts}};
}

// Returns a pod with this container, whose /dev/shm is in memory so that its ranks can share
// tensors. On an AWS machine the pod selects nodes of this machine.
ordered_json pod_with(const Launch& launch, ordered_json container) {
  ordered_json pod;
  if (is_aws_machine(launch.machine))
    pod["nodeSelector"]["node.kubernetes.io/instance-type"] = launch.machine;
  container["volumeMounts"] =
      ordered_json::array({{{"name", "shared-memory"}, {"mountPath", "/dev/shm"}}});
  pod["containers"].push_back(std::move(container));
  pod["volumes"] =
      ordered_json::array({{{"name", "shared-memory"}, {"emptyDir", {{"medium", "Memory"}}}}});
  return pod;
}

// The container image is the user's own, and no plan names it. The first line of each file tells
// users to write its name here.
constexpr const char* image = "REGISTRY/IMAGE:TAG";

std::string object_text(const Launch& launch, const char* version, const char* kind,
                        const ordered_json& spec) {
  return std::string("# Put the image with the training program in place of ") + image + ".\n" +
         yaml_text({{"apiVersion", version},
                    {"kind", kind},
                    {"metadata", {{"name", plain_name(launch.name)}}},
                    {"spec", spec}});
}

ordered_json replicas_of(const Launch& launch, int replicas) {
  ordered_json container = {{"name", "pytorch"}, {"image", image}};
  add_command(container, launch);
  add_environment(container, launch);
  container["resources"] = resources_of(launch);
  return {{"replicas", replicas},
          {"restartPolicy", "OnFailure"},
          {"template", {{"spec", pod_with(launch, container)}}}};
}

}  // namespace

std::string train_job(const Launch& launch) {
  ordered_json trainer = {
      {"image", image}, {"numNodes", launch.hosts}, {"numProcPerNode", launch.gpus_per_host}};
  add_command(trainer, launch);
  add_environment(trainer, launch);
  trainer["resourcesPerNode"] = resources_of(launch);
  // The patch refers to the job and the container of the runtime torch-distributed, which are both
  // called `node`.
  const ordered_json pod = pod_with(launch, {{"name", "node"}});
  const ordered_json job = {{"name", "node"},
                            {"template", {{"spec", {{"template", {{"spec", pod}}}}}}}};
  const ordered_json runtime = {
      {"template", {{"spec", {{"replicatedJobs", ordered_json::array({job})}}}}}};
  const ordered_json patch = {{"manager", "meshwright/export"}, {"trainingRuntimeSpec", runtime}};
  return object_text(launch, "trainer.kubeflow.org/v1alpha1", "TrainJob",
                     {{"runtimeRef", {{"name", "torch-distributed"}}},
                      {"trainer", trainer},
                      {"runtimePatches", ordered_json::array({patch})}});
}

std::string pytorch_job(const Launch& launch) {
  ordered_json replicas = {{"Master", replicas_of(launch, 1)}};
  if (launch.hosts > 1) replicas["Worker"] = replicas_of(launch, launch.hosts - 1);
  return object_text(
      launch, "kubeflow.org/v1", "PyTorchJob",
      {{"nprocPerNode", std::to_string(launch.gpus_per_host)}, {"pytorchReplicaSpecs", replicas}});
}

}  // namespace meshwright::interop
