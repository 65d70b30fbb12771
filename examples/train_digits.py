"""Train, quantize and save the two example models: handwritten digits of 8x8 pixels.

digits.tflite runs on the NPU as a whole; digits_partial.tflite has float inputs and outputs, which the profile u55-u65
leaves to the CPU, and a far stride, as a model may have that was not made for an NPU. Also writes the sample inputs
digit_<n>.npy (int8, already quantized, for digits.tflite) and labels.txt, all beside this file.
Needs tensorflow and scikit-learn, which the project itself does not: pip install tensorflow scikit-learn
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = Path(__file__).parent
SEED = 7


def build() -> tf.keras.Model:
    """A residual block of plain and depthwise convolutions, about 14 thousand weights."""
    layers = tf.keras.layers
    image = layers.Input((8, 8, 1), batch_size=1)
    stem = layers.Conv2D(16, 3, padding="same", activation="relu")(image)
    x = layers.DepthwiseConv2D(3, padding="same", activation="relu")(stem)
    x = layers.Conv2D(16, 1)(x)
    x = layers.ReLU()(layers.Add()([stem, x]))
    x = layers.MaxPooling2D(2)(x)
    x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu6")(x)
    x = layers.Conv2D(32, 1, activation="relu")(x)
    x = layers.AveragePooling2D(2)(x)
    x = layers.Reshape((32,))(x)
    return tf.keras.Model(image, layers.Softmax()(layers.Dense(10)(x)))


def build_partial() -> tf.keras.Model:
    """The same task with a half-pixel resize, a convolution of stride 4 and a pool whose stride is its size, 4."""
    layers = tf.keras.layers
    image = layers.Input((8, 8, 1), batch_size=1)
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(image)
    x = layers.UpSampling2D(2, interpolation="bilinear")(x)
    x = layers.Conv2D(32, 5, strides=4, padding="same", activation="relu")(x)
    x = layers.Conv2D(32, 1, activation="relu")(x)
    x = layers.AveragePooling2D(4)(x)
    x = layers.Reshape((32,))(x)
    return tf.keras.Model(image, layers.Softmax()(layers.Dense(10)(x)))


def train(model: tf.keras.Model, images: npt.NDArray[np.float32], classes: npt.NDArray[np.int64]) -> None:
    """Twelve epochs of single images in a fixed order."""
    trainable = tf.keras.Model(model.inputs, model.outputs)
    trainable.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    dataset = tf.data.Dataset.from_tensor_slices((images, classes)).shuffle(2000, seed=SEED).batch(1).repeat()
    trainable.fit(dataset, steps_per_epoch=len(images), epochs=12, verbose=2)


def convert(model: tf.keras.Model, images: npt.NDArray[np.float32], ends: tf.DType) -> bytes:
    """The model as int8 TFLite file; `ends` is the type of its input and output."""
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([image[None]] for image in images[:300])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = ends
    content: bytes = converter.convert()
    return content


def predict(content: bytes, images: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
    """The class of every image; images have the type of the model's input."""
    interpreter = tf.lite.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    (ifm,), (ofm,) = interpreter.get_input_details(), interpreter.get_output_details()
    predictions = []
    for image in images:
        interpreter.set_tensor(ifm["index"], image[None])
        interpreter.invoke()
        predictions.append(int(np.argmax(interpreter.get_tensor(ofm["index"]))))
    return np.array(predictions)


def quantize(content: bytes, images: npt.NDArray[np.float32]) -> npt.NDArray[np.int8]:
    """Images in the quantization of the model's input."""
    (detail,) = tf.lite.Interpreter(model_content=content).get_input_details()
    scale, zero_point = detail["quantization"]
    return np.clip(np.round(images / scale) + zero_point, -128, 127).astype(np.int8)


def main() -> None:
    """Train on four fifths of the data, print the accuracy on the rest, save."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[..., None]
    train_x, test_x, train_y, test_y = train_test_split(images, digits.target, test_size=0.2, random_state=SEED)

    tf.keras.utils.set_random_seed(SEED)
    model = build()
    train(model, train_x, train_y)
    content = convert(model, train_x, tf.int8)
    (HERE / "digits.tflite").write_bytes(content)
    (HERE / "labels.txt").write_text("".join(f"{n}\n" for n in range(10)))
    quantized = quantize(content, test_x)
    predictions = predict(content, quantized)
    sys.stdout.write(f"digits.tflite: accuracy on {len(test_y)} unseen digits: {np.mean(predictions == test_y):.1%}\n")
    for digit in range(10):
        right = np.flatnonzero((test_y == digit) & (predictions == digit))
        np.save(HERE / f"digit_{digit}.npy", quantized[right[0]][None])

    tf.keras.utils.set_random_seed(SEED)
    model = build_partial()
    train(model, train_x, train_y)
    content = convert(model, train_x, tf.float32)
    (HERE / "digits_partial.tflite").write_bytes(content)
    accuracy = np.mean(predict(content, test_x) == test_y)
    sys.stdout.write(f"digits_partial.tflite: accuracy on {len(test_y)} unseen digits: {accuracy:.1%}\n")


if __name__ == "__main__":
    main()
