// CUDA's vector types of two to four numbers, and dim3.
#pragma once

#define MESHWRIGHT_VECTORS(type, name, wide)                                     \
  struct alignas(2 * sizeof(type)) name##2 {                                     \
    type x, y;                                                                   \
  };                                                                             \
  struct name##3 {                                                               \
    type x, y, z;                                                                \
  };                                                                             \
  struct alignas(wide) name##4 {                                                 \
    type x, y, z, w;                                                             \
  };                                                                             \
  constexpr name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  constexpr name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  constexpr name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

MESHWRIGHT_VECTORS(float, float, 16)
MESHWRIGHT_VECTORS(int, int, 16)
MESHWRIGHT_VECTORS(unsigned int, uint, 16)
MESHWRIGHT_VECTORS(double, double, 16)
MESHWRIGHT_VECTORS(short, short, 8)
MESHWRIGHT_VECTORS(unsigned short, ushort, 8)
MESHWRIGHT_VECTORS(unsigned char, uchar, 4)
MESHWRIGHT_VECTORS(long long, longlong, 16)
MESHWRIGHT_VECTORS(unsigned long long, ulonglong, 16)
#undef MESHWRIGHT_VECTORS

struct dim3 {
  unsigned int x = 1, y = 1, z = 1;
  constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)
      : x(x_), y(y_), z(z_) {}
};
