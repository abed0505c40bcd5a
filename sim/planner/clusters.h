// Derives the machines and clusters that a job may mean from what it says about its cluster.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"
#include "models/job/job.h"

namespace meshwright::sim {

// Return what the rules of a job ask about a machine. The computer itself, `local`, is a CPU
// computer with an unknown number of cores until `meshwright calibrate` has measured it.
MachineFacts machine_facts(const std::string& machine);
MachineFacts facts_of(const Machine& machine);

// Loads the profile of a machine. A program that has its own profile of `local` passes its own
// loader.
using MachineLoader = std::function<Machine(const std::string& name)>;
Machine load_known_machine(const std::string& name);  // `local` without a profile: InputError

Cluster make_cluster(const ClusterRequest& request, const Machine& machine, int count);
Cluster make_cluster(const ClusterRequest& request, const std::string& machine, int count);

// Return the machines and the host counts that the planner may choose from. "auto" machines are all
// known ones except `local`. "auto" counts are the powers of two up to `largest_automatic_count`.
constexpr int largest_automatic_count = 16;
std::vector<std::string> machines_of(const ClusterRequest& request);
std::vector<int> counts_of(const ClusterRequest& request);

}  // namespace meshwright::sim
