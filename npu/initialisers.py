"""Initialisers of frozen records, which Python keeps compiled: `npu.records` gives them the names of fields.

Made by `python -m tests.support.initialisers`. To compile their text takes a process as long as to load twenty modules.
"""

# mypy: ignore-errors
# ruff: noqa: F821


def fill_1_slots(self, f0):
    put_0(self, f0)


def fill_2_slots(self, f0, f1):
    put_0(self, f0)
    put_1(self, f1)


def fill_3_slots(self, f0, f1, f2):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)


def fill_4_slots(self, f0, f1, f2, f3):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)


def fill_5_slots(self, f0, f1, f2, f3, f4):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)


def fill_6_slots(self, f0, f1, f2, f3, f4, f5):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)


def fill_7_slots(self, f0, f1, f2, f3, f4, f5, f6):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)


def fill_8_slots(self, f0, f1, f2, f3, f4, f5, f6, f7):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)


def fill_9_slots(self, f0, f1, f2, f3, f4, f5, f6, f7, f8):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)


def fill_10_slots(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)


def fill_11_slots(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)


def fill_12_slots(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)


def fill_13_slots(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)


def fill_14_slots(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)
    put_13(self, f13)


def fill_15_slots(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)
    put_13(self, f13)
    put_14(self, f14)


def fill_16_slots(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)
    put_13(self, f13)
    put_14(self, f14)
    put_15(self, f15)


def fill_17_slots(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)
    put_13(self, f13)
    put_14(self, f14)
    put_15(self, f15)
    put_16(self, f16)


def fill_18_slots(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)
    put_13(self, f13)
    put_14(self, f14)
    put_15(self, f15)
    put_16(self, f16)
    put_17(self, f17)


def fill_19_slots(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18):
    put_0(self, f0)
    put_1(self, f1)
    put_2(self, f2)
    put_3(self, f3)
    put_4(self, f4)
    put_5(self, f5)
    put_6(self, f6)
    put_7(self, f7)
    put_8(self, f8)
    put_9(self, f9)
    put_10(self, f10)
    put_11(self, f11)
    put_12(self, f12)
    put_13(self, f13)
    put_14(self, f14)
    put_15(self, f15)
    put_16(self, f16)
    put_17(self, f17)
    put_18(self, f18)


def set_1_attributes(self, f0):
    put(self, "f0", f0)


def set_2_attributes(self, f0, f1):
    put(self, "f0", f0)
    put(self, "f1", f1)


def set_3_attributes(self, f0, f1, f2):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)


def set_4_attributes(self, f0, f1, f2, f3):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)


def set_5_attributes(self, f0, f1, f2, f3, f4):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)


def set_6_attributes(self, f0, f1, f2, f3, f4, f5):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)
    put(self, "f5", f5)


def set_7_attributes(self, f0, f1, f2, f3, f4, f5, f6):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)
    put(self, "f5", f5)
    put(self, "f6", f6)


def set_8_attributes(self, f0, f1, f2, f3, f4, f5, f6, f7):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)
    put(self, "f5", f5)
    put(self, "f6", f6)
    put(self, "f7", f7)


def set_9_attributes(self, f0, f1, f2, f3, f4, f5, f6, f7, f8):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)
    put(self, "f5", f5)
    put(self, "f6", f6)
    put(self, "f7", f7)
    put(self, "f8", f8)


def set_10_attributes(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)
    put(self, "f5", f5)
    put(self, "f6", f6)
    put(self, "f7", f7)
    put(self, "f8", f8)
    put(self, "f9", f9)


def set_11_attributes(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)
    put(self, "f5", f5)
    put(self, "f6", f6)
    put(self, "f7", f7)
    put(self, "f8", f8)
    put(self, "f9", f9)
    put(self, "f10", f10)


def set_12_attributes(self, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11):
    put(self, "f0", f0)
    put(self, "f1", f1)
    put(self, "f2", f2)
    put(self, "f3", f3)
    put(self, "f4", f4)
    put(self, "f5", f5)
    put(self, "f6", f6)
    put(self, "f7", f7)
    put(self, "f8", f8)
    put(self, "f9", f9)
    put(self, "f10", f10)
    put(self, "f11", f11)
