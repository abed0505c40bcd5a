// Puts fitted constants into the text of a profile, or of a part of one. The rest of the text stays
// as people wrote it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"

namespace meshwright::hwprofiles {

// Returns `text` with the machine's fitted values. The text must have one key per line inside its
// blocks. Its block `efficiency`, if it has one, is written anew. In the blocks gpu, host, nvlink,
// network and collectives, only the values of fitted fields that the text has are replaced.
std::string with_fitted_constants(std::string text, Machine machine, const std::string& source);
// Does the same for the blocks nvlink, network and collectives only.
std::string with_fitted_links(std::string text, Machine machine);
// Returns `text` with these residuals as its block `residuals`. A new block follows the block
// `efficiency` (or `gpu` if there is none). Unset residuals remove the block.
std::string with_residuals(std::string text, const std::optional<Residuals>& residuals);

// A profile of a GPU machine, or a part of such a profile, and the machine whose constants it
// holds. If machines share a part, this is the first one whose constants were fitted to
// measurements, or else the first one.
struct FittedFile {
  std::string path, machine;
  std::vector<std::string> gpus;  // names of the GPUs of all machines that have this part
};
// Returns every such profile and part.
std::vector<FittedFile> fitted_files();

}  // namespace meshwright::hwprofiles
