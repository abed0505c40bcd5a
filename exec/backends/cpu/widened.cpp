#include "exec/backends/cpu/widened.h"

#include <array>

#include "exec/core/half.h"
#include "models/core/error.h"
#include "models/program/graph/widen.h"

namespace meshwright::exec::cpu {

namespace {

constexpr std::size_t most_operands = 16;

void widen_all(ThreadPool& pool, const void* from, Dtype dtype, std::int64_t count, float* to) {
  parallel_for(pool, count, elements_per_piece, [=](std::int64_t begin, std::int64_t end) {
    widen(static_cast<const std::uint16_t*>(from) + begin, dtype, end - begin, to + begin);
  });
}

void narrow_all(ThreadPool& pool, const float* from, Dtype dtype, std::int64_t count, void* to) {
  parallel_for(pool, count, elements_per_piece, [=](std::int64_t begin, std::int64_t end) {
    narrow(from + begin, dtype, end - begin, static_cast<std::uint16_t*>(to) + begin);
  });
}

// One operand of the operation, whole or split into pieces, and its fp32 copy for the kernel.
struct Operand {
  TensorType type;  // the whole operand's
  std::byte* data = nullptr;
  bool cut = false;
  float* wide = nullptr;  // scratch memory, for 16-bit operands

  bool is_narrow() const { return is_16_bit(type.dtype); }
  std::int64_t rows_per_unit(const Pieces& pieces) const { return type.shape[0] / pieces.units; }

  TensorType type_of_piece(const Pieces& pieces, std::int64_t units) const {
    TensorType piece = type;
    if (cut) piece.shape[0] = rows_per_unit(pieces) * units;
    if (is_narrow()) piece.dtype = Dtype::f32;
    return piece;
  }
  std::byte* data_of_piece(const Pieces& pieces, std::int64_t first) const {
    return cut ? data + type.bytes() / pieces.units * first : data;
  }
};

class Widened {
 public:
  explicit Widened(const KernelCall& k)
      : k_(k),
        pieces_(pieces_of(k.call)),
        inputs_(k.call.inputs.size()),
        outputs_(k.call.outputs.size()) {
    MESHWRIGHT_CHECK(inputs_ <= most_operands && outputs_ <= most_operands, "few operands");
    for (std::size_t i = 0; i < inputs_; ++i)
      in_[i] = operand(k.call.inputs[i], k.operands.inputs[i], pieces_.inputs >> i & 1U);
    for (std::size_t i = 0; i < outputs_; ++i)
      out_[i] = operand(k.call.outputs[i], k.operands.outputs[i], pieces_.outputs >> i & 1U);
  }

  void run(Kernel kernel) {
    for (std::size_t i = 0; i < inputs_; ++i) load(in_[i]);
    for (std::size_t i = 0; i < outputs_; ++i) load(out_[i]);  // they may be added to
    for (std::int64_t first = 0; first < pieces_.units; first += pieces_.per_piece)
      run_piece(kernel, first, std::min(pieces_.per_piece, pieces_.units - first));
    for (std::size_t i = 0; i < outputs_; ++i)
      if (out_[i].is_narrow() && !out_[i].cut)
        narrow_all(k_.pool, out_[i].wide, out_[i].type.dtype, out_[i].type.shape.elements(),
                   out_[i].data);
  }

 private:
  Operand operand(const TensorType& type, const void* data, bool cut) {
    Operand made{type, const_cast<std::byte*>(static_cast<const std::byte*>(data)), cut, nullptr};
    if (!made.is_narrow()) return made;
    const std::int64_t elements = type.shape.elements();
    made.wide = reinterpret_cast<float*>(static_cast<std::byte*>(k_.context.workspace) + used_);
    used_ += widened_bytes_of(cut ? elements / pieces_.units * pieces_.per_piece : elements);
    return made;
  }

  void load(const Operand& each) {
    if (each.is_narrow() && !each.cut)
      widen_all(k_.pool, each.data, each.type.dtype, each.type.shape.elements(), each.wide);
  }

  void run_piece(Kernel kernel, std::int64_t first, std::int64_t units) {
    std::array<TensorType, most_operands> in_types, out_types;
    std::array<const void*, most_operands> in;
    std::array<void*, most_operands> out;
    for (std::size_t i = 0; i < inputs_; ++i) {
      const Operand& each = in_[i];
      in_types[i] = each.type_of_piece(pieces_, units);
      const std::byte* data = each.data_of_piece(pieces_, first);
      if (each.is_narrow() && each.cut)
        widen_all(k_.pool, data, each.type.dtype, in_types[i].shape.elements(), each.wide);
      in[i] = each.is_narrow() ? static_cast<const void*>(each.wide) : data;
    }
    for (std::size_t i = 0; i < outputs_; ++i) {
      out_types[i] = out_[i].type_of_piece(pieces_, units);
      out[i] = out_[i].is_narrow() ? static_cast<void*>(out_[i].wide)
                                   : out_[i].data_of_piece(pieces_, first);
    }
    Attributes attributes = k_.attributes();
    OpContext context = k_.context;
    if (pieces_.sequences) {
      attributes.micro_batch = static_cast<int>(units);
      context.first_sequence += first;
    }
    // Sums over rows are not split: later pieces add to what the first piece stores.
    const std::uint32_t overwrites = first == 0 ? k_.call.overwrites : 0;
    kernel({{k_.call.op,
             attributes,
             {in_types.data(), inputs_},
             {out_types.data(), outputs_},
             overwrites},
            {{in.data(), inputs_}, {out.data(), outputs_}},
            context,
            k_.pool});
    for (std::size_t i = 0; i < outputs_; ++i)
      if (out_[i].is_narrow() && out_[i].cut)
        narrow_all(k_.pool, out_[i].wide, out_[i].type.dtype, out_types[i].shape.elements(),
                   out_[i].data_of_piece(pieces_, first));
  }

  const KernelCall& k_;
  const Pieces pieces_;
  std::size_t inputs_, outputs_;
  std::int64_t used_ = 0;
  std::array<Operand, most_operands> in_, out_;
};

}  // namespace

void run_widened(Kernel kernel, const KernelCall& call) { Widened(call).run(kernel); }

}  // namespace meshwright::exec::cpu
