// From what a job says about its cluster to the machines and clusters that it may mean.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"
#include "models/job/job.h"

namespace meshwright {

// What the rules of a job ask about a machine. The computer itself, `local`, is a CPU computer with
// an unknown number of cores until `meshwright calibrate` has measured it.
MachineFacts machine_facts(const std::string& machine);
MachineFacts facts_of(const Machine& machine);

// Where profiles come from: a program that has its own profile of `local` gives its own.
using MachineLoader = std::function<Machine(const std::string& name)>;
Machine load_known_machine(const std::string& name);  // `local` without a profile: InputError

Cluster make_cluster(const ClusterRequest& request, const Machine& machine, int count);
Cluster make_cluster(const ClusterRequest& request, const std::string& machine, int count);

// The machines and the host counts that the planner may choose from. "auto" machines: every known
// one; "auto" counts: the powers of two up to `largest_automatic_count`.
constexpr int largest_automatic_count = 16;
std::vector<std::string> machines_of(const ClusterRequest& request);
std::vector<int> counts_of(const ClusterRequest& request);

}  // namespace meshwright
