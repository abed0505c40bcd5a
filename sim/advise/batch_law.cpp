#include "sim/advise/batch_law.h"

#include <cmath>

namespace meshwright::sim {

double useful_batch_tokens(double flops) { return 0.2920 * std::pow(flops, 0.3271); }

}  // namespace meshwright::sim
