// Puts fitted constants into a profile's text and leaves the rest as people wrote it.
#pragma once

#include <string>

#include "hwprofiles/machine.h"

namespace meshwright {

// `text` is a profile with one key per line inside its blocks; its efficiency block is written anew
// with `source`, and what a fit may change in nvlink, network, collectives and host is replaced.
std::string with_fitted_constants(std::string text, const Machine& machine,
                                  const std::string& source);

}  // namespace meshwright
