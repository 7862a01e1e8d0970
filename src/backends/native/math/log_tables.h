// Tables for logarithms without a division: the range of a mantissa in sixteen intervals, with an inverse c of a number near the
// middle of each, so that log m = -log c + log(1 + r), r = m c - 1. Around one, c is one, and nothing is lost.
//
// Computed with 60 digits. Each base has, for every interval, -log c as a short number and a rest; log 2 and the scale of r as such
// pairs; and the coefficients of (log(1 + r) - scale r) / r^2, fitted to all r that occur (relative error below 2^-54, 2^-29).
#pragma once

#include "backends/native/math/vector_lanes.h"

namespace evalframe::native {
namespace {

template <class Scalar, int kTail> struct LogTable {
  Scalar high[16], low[16], exponent[2], scale[2], tail[kTail];
};

template <class W> struct LogTables;

template <> struct LogTables<Doubles> {
  static constexpr double kInverse[16] = {0x1.62362d2d997p+0, 0x1.5387df431f3ffp+0, 0x1.4604b51df14eep+0, 0x1.398a55b4e7c87p+0, 0x1.2dfb788c82651p+0,
      0x1.233eff3c6537bp+0, 0x1.193f3e6ed96ep+0, 0x1.0fe96b526099bp+0, 0x1.072d254b2fdep+0, 0x1p+0, 0x1.de4c262921ddp-1,
      0x1.c3e982b34b15p-1, 0x1.ac49267376f57p-1, 0x1.9701cc0584fc6p-1, 0x1.83be1c47c479dp-1, 0x1.72382d6da171p-1};
  static constexpr LogTable<double, 8> kNatural = {
      {-0x1.4c82a41b7p-2, -0x1.212a13c12p-2, -0x1.ef286f52fp-3, -0x1.9f3bbfa308p-3, -0x1.524fa73a88p-3, -0x1.082c7d7bbp-3,
       -0x1.8140df35bp-4, -0x1.edfadb57cp-5, -0x1.c4f77d0dp-6, 0x0p+0, 0x1.16e76ad65p-4, 0x1.ff54e507dp-4, 0x1.6da33fabe8p-3,
       0x1.d6010d30f8p-3, 0x1.1ca789d984p-2, 0x1.4c029c1ac4p-2},
      {0x1.cb3ac911ec92p-43, -0x1.b7b7672f3f089p-44, 0x1.cefe8319c05bap-42, -0x1.c3562f3e9872cp-42, -0x1.ebd8d29bc911p-42,
       0x1.cfd3583606092p-43, -0x1.e246f6dc42a4cp-44, 0x1.c48cd491b7bc4p-43, 0x1.5d808442747fbp-44, 0x0p+0,
       0x1.f128cb213d935p-42, -0x1.d9e99560aabaep-43, -0x1.b72e9988715ecp-42, 0x1.2f69629d51319p-43, 0x1.d7192404e318ap-43,
       0x1.7e0fc43c7ad1dp-44},
      {0x1.62e42fefa4p-1, -0x1.8432a1b0e2634p-43},
      {0x1p+0, 0x0p+0},
      {-0x1.ffffffffffff6p-2, 0x1.5555555556b03p-2, -0x1.0000000047089p-2, 0x1.9999993b3d36bp-3, -0x1.555549aabc416p-3,
       0x1.2495734d24ed1p-3, -0x1.0055ca3a16bebp-3, 0x1.b7dbad832fff9p-4}};
  static constexpr LogTable<double, 8> kBinary = {
      {-0x1.dfb603190cp-2, -0x1.a12d0deebp-2, -0x1.652e534bd8p-2, -0x1.2b870f604cp-2, -0x1.e8146e8c48p-3, -0x1.7d1f49925p-3,
       -0x1.15e6ce8bp-3, -0x1.6454c8655p-4, -0x1.46bf16e8ap-5, 0x0p+0, 0x1.925f95d6dp-4, 0x1.70d90928ep-3, 0x1.07c078ab88p-2,
       0x1.53094acc24p-2, 0x1.9aab683cf8p-2, 0x1.defd4d5248p-2},
      {-0x1.bd93281f953ffp-43, 0x1.04eeba4fda592p-44, -0x1.d19206809f3ebp-45, -0x1.ab05cc9c28dd6p-42, -0x1.646ee9ac696ccp-42,
       -0x1.a25e35b04229cp-44, -0x1.779d17f2fb759p-42, -0x1.269aa538e329ep-42, 0x1.1cc3fcd26cd93p-42, 0x0p+0,
       -0x1.8fa0202530d2fp-43, -0x1.4f8e2b6eceffcp-44, -0x1.36ddafbb8bf22p-42, -0x1.16b7afd7ab21bp-42, -0x1.b266e03069dp-48,
       0x1.806cb3d7f8671p-42},
      {0x1p+0, 0x0p+0},
      {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56},
      {-0x1.71547652b82f7p-1, 0x1.ec709dc3a2345p-2, -0x1.715476531eaaap-2, 0x1.2776c4cae899bp-2, -0x1.ec708ceee03b7p-3,
       0x1.a61bf37775107p-3, -0x1.71d03b1e74f77p-3, 0x1.3d4a623e3505ap-3}};
  static constexpr LogTable<double, 8> kDecimal = {
      {-0x1.20d0962a28p-3, -0x1.f65477a24p-4, -0x1.ae16b6faep-4, -0x1.68aac9d96p-4, -0x1.25da73a81p-4, -0x1.caeab86cp-5,
       -0x1.4ea079ad4p-5, -0x1.ad10c4744p-6, -0x1.897121c7p-7, 0x0p+0, 0x1.e4817de9p-6, 0x1.bc23128bcp-5, 0x1.3d96bfb22p-4,
       0x1.983d8997bp-4, 0x1.ee7ed4045p-4, 0x1.2061614a6p-3},
      {0x1.c64587427a1d3p-42, -0x1.c2c927a2858a6p-42, -0x1.719922857df78p-42, -0x1.23999cb416eddp-42, 0x1.15f8ca0dfab66p-42,
       -0x1.0bcba5b397a74p-42, -0x1.705d5107c6742p-42, 0x1.d5d2e286b328ep-44, 0x1.0a20a451ab599p-43, 0x0p+0,
       -0x1.1603c602c1aa8p-42, 0x1.6caf3a3ece8c8p-42, -0x1.a6353a5ffa54ep-46, 0x1.e5ccd69e12027p-42, -0x1.157e43e4d1b7bp-42,
       -0x1.9c5b8202e919dp-42},
      {0x1.34413509f8p-2, -0x1.80433b83b532ap-44},
      {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57},
      {-0x1.bcb7b1526e506p-3, 0x1.287a7636f5634p-3, -0x1.bcb7b152e9b6bp-4, 0x1.63c627232f151p-4, -0x1.287a6c14d3f29p-4,
       0x1.fc452578c2dc7p-5, -0x1.bd4cb99e29bbcp-5, 0x1.7e0e4fd28a73ap-5}};
};

template <> struct LogTables<Floats> {
  static constexpr float kInverse[16] = {0x1.62362ep+0f, 0x1.5387ep+0f, 0x1.4604b6p+0f, 0x1.398a56p+0f, 0x1.2dfb7ap+0f, 0x1.233fp+0f, 0x1.193f4p+0f,
      0x1.0fe96cp+0f, 0x1.072d26p+0f, 0x1p+0f, 0x1.de4c28p-1f, 0x1.c3e984p-1f, 0x1.ac4928p-1f, 0x1.9701cep-1f, 0x1.83be1ep-1f,
      0x1.72382ep-1f};
  static constexpr LogTable<float, 4> kNatural = {
      {-0x1.4c8p-2f, -0x1.213p-2f, -0x1.ef2p-3f, -0x1.9f4p-3f, -0x1.524p-3f, -0x1.082p-3f, -0x1.814p-4f, -0x1.eep-5f,
       -0x1.c5p-6f, 0x0p+0f, 0x1.17p-4f, 0x1.ff4p-4f, 0x1.6dap-3f, 0x1.d6p-3f, 0x1.1cap-2f, 0x1.4cp-2f},
      {-0x1.533dd8p-17f, 0x1.7a814ep-16f, -0x1.0e9bep-16f, 0x1.0f9c9cp-17f, -0x1.f6223ep-16f, -0x1.905b64p-16f,
       -0x1.ec0fep-21f, 0x1.440e5ep-19f, 0x1.0adf52p-19f, 0x0p+0f, -0x1.8a4eap-16f, 0x1.4d9404p-16f, 0x1.9c21dcp-18f,
       0x1.033c7p-19f, 0x1.e153bap-16f, 0x1.4d42f6p-17f},
      {0x1.62e8p-1f, -0x1.e8082ep-16f},
      {0x1p+0f, 0x0p+0f},
      {-0x1.fffffep-2f, 0x1.5555dp-2f, -0x1.002c38p-2f, 0x1.932a72p-3f}};
  static constexpr LogTable<float, 4> kBinary = {
      {-0x1.dfbp-2f, -0x1.a13p-2f, -0x1.653p-2f, -0x1.2b8p-2f, -0x1.e82p-3f, -0x1.7d2p-3f, -0x1.15ep-3f, -0x1.644p-4f,
       -0x1.468p-5f, 0x0p+0f, 0x1.924p-4f, 0x1.70ep-3f, 0x1.07cp-2f, 0x1.531p-2f, 0x1.9abp-2f, 0x1.dfp-2f},
      {-0x1.81a1a4p-16f, 0x1.776dcp-17f, 0x1.a8b3ccp-18f, -0x1.c43088p-16f, 0x1.70682p-16f, 0x1.5d5a9ep-20f, -0x1.b7c054p-17f,
       -0x1.4d7228p-16f, -0x1.f9b504p-16f, 0x0p+0f, 0x1.f7f1d6p-16f, -0x1.bfd59ap-17f, 0x1.cd4ee8p-20f, -0x1.af189p-16f,
       -0x1.279416p-16f, -0x1.5a7ae4p-17f},
      {0x1p+0f, 0x0p+0f},
      {0x1.715476p+0f, 0x1.4ae0cp-26f},
      {-0x1.715476p-1f, 0x1.ec714ep-2f, -0x1.719442p-2f, 0x1.22d29ap-2f}};
  static constexpr LogTable<float, 4> kDecimal = {
      {-0x1.20ep-3f, -0x1.f64p-4f, -0x1.aep-4f, -0x1.68cp-4f, -0x1.25cp-4f, -0x1.cbp-5f, -0x1.4e8p-5f, -0x1.adp-6f,
       -0x1.8ap-7f, 0x0p+0f, 0x1.e5p-6f, 0x1.bcp-5f, 0x1.3d8p-4f, 0x1.984p-4f, 0x1.ee8p-4f, 0x1.206p-3f},
      {0x1.ecf8b2p-16f, -0x1.47b7fep-16f, -0x1.6bbcc6p-16f, 0x1.5347c8p-16f, -0x1.a7c346p-16f, 0x1.53e3e8p-17f,
       -0x1.046bfep-16f, -0x1.0d633ap-18f, 0x1.1d701p-16f, 0x0p+0f, -0x1.fa75dp-16f, 0x1.184284p-16f, 0x1.6b9432p-16f,
       -0x1.3f86f4p-19f, -0x1.33df62p-20f, 0x1.5feab8p-19f},
      {0x1.344p-2f, 0x1.3509f8p-18f},
      {0x1.bcb7b2p-2f, -0x1.5b235ep-27f},
      {-0x1.bcb7bp-3f, 0x1.287aep-3f, -0x1.bd0484p-4f, 0x1.5e2f74p-4f}};
};

}  // namespace
}  // namespace evalframe::native
