// Puts fitted constants into the text of a profile, or of a part of one, and leaves the rest as
// people wrote it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"

namespace meshwright {

// `text` has one key per line inside its blocks. Where it has an efficiency block, that is written
// anew; what a fit may change of other blocks is replaced where it stands.
std::string with_fitted_constants(std::string text, Machine machine, const std::string& source);
std::string with_fitted_links(std::string text, Machine machine);  // the links' alone
// Written after the block `efficiency`, or `gpu`; removed if there are none.
std::string with_residuals(std::string text, const std::optional<Residuals>& residuals);

// Every profile of a GPU machine and every part of one, with the machine whose constants go there:
// of those that share a part the first one that was measured.
struct FittedFile {
  std::string path, machine;
  std::vector<std::string> gpus;  // names of the GPUs of all machines that have this part
};
std::vector<FittedFile> fitted_files();

}  // namespace meshwright
