// Writes Kubeflow's objects: TrainJob of Trainer 2.3 (trainer.kubeflow.org/v1alpha1) and PyTorchJob
// of the Training Operator (kubeflow.org/v1). Both give every container PET_* variables, which
// torchrun reads as its own arguments.
#include <fmt/format.h>

#include "models/core/quote.h"
#include "tools/interop/launch/parts.h"

namespace meshwright {

namespace {

// Escapes `text` for the kubelet, which replaces $(NAME) by a variable and $$ by $.
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

class Lines {
 public:
  void add(int depth, const std::string& line) {
    text_.append(static_cast<std::size_t>(2 * depth), ' ');
    text_ += line + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void add_command(Lines& lines, int depth, const Launch& launch) {
  const Words words = container_command(launch);
  lines.add(depth, "command:");
  lines.add(depth, "- " + double_quoted(words.front()));
  lines.add(depth, "args:");
  for (std::size_t i = 1; i < words.size(); ++i) lines.add(depth, "- " + double_quoted(words[i]));
}

void add_environment(Lines& lines, int depth, const Launch& launch) {
  std::map<std::string, std::string> environment = environment_of(launch);
  // EFA would fail to reserve huge pages on nodes that set none aside, so it must not use them.
  if (efa_cards(launch.machine) > 0 && launch.hosts > 1)
    environment.emplace("FI_EFA_USE_HUGE_PAGE", "0");
  if (environment.empty()) return;
  lines.add(depth, "env:");
  for (const auto& [name, value] : environment) {
    lines.add(depth, "- name: " + name);
    lines.add(depth, "  value: " + double_quoted(literal(value)));
  }
}

void add_resources(Lines& lines, int depth, const Launch& launch) {
  for (const char* kind : {"limits", "requests"}) {
    lines.add(depth, std::string(kind) + ":");
    lines.add(depth + 1, fmt::format("nvidia.com/gpu: \"{}\"", launch.gpus_per_host));
    if (const int cards = efa_cards(launch.machine); cards > 0 && launch.hosts > 1)
      lines.add(depth + 1, fmt::format("vpc.amazonaws.com/efa: \"{}\"", cards));
  }
}

void add_node_selector(Lines& lines, int depth, const Launch& launch) {
  if (!is_aws_machine(launch.machine)) return;
  lines.add(depth, "nodeSelector:");
  lines.add(depth, "  node.kubernetes.io/instance-type: " + yaml_string(launch.machine));
}

void add_shared_memory(Lines& lines, int depth) {
  lines.add(depth, "volumes:");
  lines.add(depth, "- name: shared-memory");
  lines.add(depth, "  emptyDir:");
  lines.add(depth, "    medium: Memory");
}

void add_mount(Lines& lines, int depth) {
  lines.add(depth, "volumeMounts:");
  lines.add(depth, "- name: shared-memory");
  lines.add(depth, "  mountPath: /dev/shm");
}

// The container image is the user's own, and no plan names it. The first line of each file tells
// users to write its name here.
constexpr const char* image = "REGISTRY/IMAGE:TAG";

void add_head(Lines& lines, const Launch& launch, const char* version, const char* kind) {
  lines.add(0, std::string("# Put the image with the training program in place of ") + image + ".");
  lines.add(0, std::string("apiVersion: ") + version);
  lines.add(0, std::string("kind: ") + kind);
  lines.add(0, "metadata:");
  lines.add(1, "name: " + yaml_string(plain_name(launch.name)));
  lines.add(0, "spec:");
}

void add_replicas(Lines& lines, const Launch& launch, const char* role, int replicas) {
  lines.add(2, std::string(role) + ":");
  lines.add(3, fmt::format("replicas: {}", replicas));
  lines.add(3, "restartPolicy: OnFailure");
  lines.add(3, "template:");
  lines.add(4, "spec:");
  add_node_selector(lines, 5, launch);
  lines.add(5, "containers:");
  lines.add(5, "- name: pytorch");
  lines.add(6, "image: " + double_quoted(image));
  add_command(lines, 6, launch);
  add_environment(lines, 6, launch);
  lines.add(6, "resources:");
  add_resources(lines, 7, launch);
  add_mount(lines, 6);
  add_shared_memory(lines, 5);
}

}  // namespace

std::string train_job(const Launch& launch) {
  Lines lines;
  add_head(lines, launch, "trainer.kubeflow.org/v1alpha1", "TrainJob");
  lines.add(1, "runtimeRef:");
  lines.add(2, "name: torch-distributed");
  lines.add(1, "trainer:");
  lines.add(2, "image: " + double_quoted(image));
  lines.add(2, fmt::format("numNodes: {}", launch.hosts));
  lines.add(2, fmt::format("numProcPerNode: {}", launch.gpus_per_host));
  add_command(lines, 2, launch);
  add_environment(lines, 2, launch);
  lines.add(2, "resourcesPerNode:");
  add_resources(lines, 3, launch);
  // The patch refers to the job and the container of the runtime torch-distributed, which are both
  // called `node`.
  lines.add(1, "runtimePatches:");
  lines.add(1, "- manager: meshwright/export");
  lines.add(2, "trainingRuntimeSpec:");
  lines.add(3, "template:");
  lines.add(4, "spec:");
  lines.add(5, "replicatedJobs:");
  lines.add(5, "- name: node");
  lines.add(6, "template:");
  lines.add(7, "spec:");
  lines.add(8, "template:");
  lines.add(9, "spec:");
  add_node_selector(lines, 10, launch);
  lines.add(10, "containers:");
  lines.add(10, "- name: node");
  add_mount(lines, 11);
  add_shared_memory(lines, 10);
  return lines.text();
}

std::string pytorch_job(const Launch& launch) {
  Lines lines;
  add_head(lines, launch, "kubeflow.org/v1", "PyTorchJob");
  lines.add(1, fmt::format("nprocPerNode: \"{}\"", launch.gpus_per_host));
  lines.add(1, "pytorchReplicaSpecs:");
  add_replicas(lines, launch, "Master", 1);
  if (launch.hosts > 1) add_replicas(lines, launch, "Worker", launch.hosts - 1);
  return lines.text();
}

}  // namespace meshwright
